package jobs;

import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * Counts from 0 and appends each number to a file, some hundred a second; how far it is, Flink
 * keeps. Arguments: the file, the last number, the name of the job or "-".
 * While FILE.full exists its savepoints fail; while FILE.broken exists it fails itself.
 */
public class Numbers {
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment();
        long last = Long.parseLong(arguments[1]);
        flink.fromSource(
                        new NumberSequenceSource(0, last), WatermarkStrategy.noWatermarks(), "numbers")
                .setParallelism(1)
                .map(new Appending(arguments[0]))
                .uid("appending")
                .sinkTo(new DiscardingSink<>());
        if (arguments[2].equals("-")) {
            flink.execute();
        } else {
            flink.execute(arguments[2]);
        }
    }

    static class Appending extends RichMapFunction<Long, Long> implements CheckpointedFunction {
        private final String path;
        private transient FileOutputStream file;

        Appending(String path) {
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
        public Long map(Long number) throws Exception {
            if (Files.exists(Path.of(path + ".broken"))) {
                throw new IllegalStateException("number " + number + " can't be written");
            }
            file.write((number + "\n").getBytes(StandardCharsets.US_ASCII));
            Thread.sleep(2);
            return number;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            context.getOperatorStateStore()
                    .getListState(new ListStateDescriptor<>("path", new Picky()))
                    .update(List.of(path));
        }
    }
}
