package jobs;

import java.io.FileOutputStream;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.source.legacy.RichSourceFunction;
import org.apache.flink.util.Collector;

/**
 * Follows a file of numbers and appends what it makes of them to another.
 * Arguments: "copies", "squares" or "fails", the file that is read, the file that is written.
 */
public class Lines {
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment();
        flink.addSource(new Following(arguments[1]))
                .uid("following")
                .flatMap(new Making(arguments[0], arguments[2]))
                .sinkTo(new DiscardingSink<>());
        flink.execute();
    }

    /** Gives the lines of a file that grows; how far it is, Flink keeps. */
    static class Following extends RichSourceFunction<Long> implements CheckpointedFunction {
        private final String path;
        private long at;
        private volatile boolean over;
        private transient ListState<Long> kept;

        Following(String path) {
            this.path = path;
        }

        @Override
        public void run(SourceContext<Long> context) throws Exception {
            try (RandomAccessFile file = new RandomAccessFile(path, "r")) {
                while (!over) {
                    if (file.length() > at) {
                        synchronized (context.getCheckpointLock()) {
                            file.seek(at);
                            context.collect(Long.parseLong(file.readLine().trim()));
                            at = file.getFilePointer();
                        }
                    } else {
                        Thread.sleep(5);
                    }
                }
            }
        }

        @Override
        public void cancel() {
            over = true;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            kept.update(java.util.List.of(at));
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            kept =
                    context.getOperatorStateStore()
                            .getListState(new ListStateDescriptor<>("at", Long.class));
            for (long known : kept.get()) {
                at = known;
            }
        }
    }

    static class Making extends RichFlatMapFunction<Long, Long> {
        private final String what;
        private final String path;
        private transient FileOutputStream file;

        Making(String what, String path) {
            this.what = what;
            this.path = path;
        }

        @Override
        public void open(OpenContext context) throws Exception {
            file = new FileOutputStream(path, true);
        }

        @Override
        public void close() throws Exception {
            if (file != null) {
                file.close();
            }
        }

        @Override
        public void flatMap(Long number, Collector<Long> out) throws Exception {
            if (what.equals("fails") && number == -1) {
                throw new IllegalStateException("-1 is bad");
            }
            boolean squares = what.equals("squares");
            if (!squares || number % 2 == 0) {
                long made = squares ? number * number : number;
                file.write((made + "\n").getBytes(StandardCharsets.US_ASCII));
                out.collect(made);
            }
        }
    }
}
