package millrace.speck;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.RichSourceFunction;
import org.apache.flink.util.ParameterTool;
import org.eclipse.paho.client.mqttv3.MqttClient;
import org.eclipse.paho.client.mqttv3.MqttConnectOptions;
import org.eclipse.paho.client.mqttv3.persist.MemoryPersistence;

/** Passes each message of a topic of MQTT on to another one. Its argument `version` means nothing. */
public final class PassOn {
    private static final int AT_LEAST_ONCE = 1;
    private static final long LOOK_MILLIS = 20;

    private PassOn() {}

    public static void main(String[] given) throws Exception {
        ParameterTool told = ParameterTool.fromArgs(given);
        StreamExecutionEnvironment here = StreamExecutionEnvironment.getExecutionEnvironment();
        here.addSource(new Source(End.of(told, "source")), PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)
            .addSink(new Sink(End.of(told, "sink")));
        here.execute();
    }

    /** A topic at a broker, and who comes in there; the password stays in its file until it is needed. */
    record End(String broker, String topic, String user, String passwordFile) implements java.io.Serializable {
        static End of(ParameterTool told, String side) {
            return new End(told.getRequired(side + "_broker"), told.getRequired(side + "_topic"),
                told.getRequired("user"), told.getRequired("password_file"));
        }

        MqttClient connected() throws Exception {
            MqttConnectOptions options = new MqttConnectOptions();
            options.setUserName(user);
            options.setPassword(Files.readString(Path.of(passwordFile)).strip().toCharArray());
            options.setAutomaticReconnect(true);
            MqttClient client = new MqttClient(broker, "pass-on-" + UUID.randomUUID(), new MemoryPersistence());
            client.connect(options);
            return client;
        }

        /** Leaves without a word: the client would wait in vain for an answer to it, as long as it may. */
        static void leave(MqttClient client) throws Exception {
            if (client != null) {
                client.disconnectForcibly(0, 0, false);
                client.close(true);
            }
        }
    }

    /** It has subscribed when Flink says that it runs. */
    static final class Source extends RichSourceFunction<byte[]> {
        private final End end;
        private transient BlockingQueue<byte[]> waiting;
        private transient MqttClient client;
        private volatile boolean wanted = true;

        Source(End end) {
            this.end = end;
        }

        @Override
        public void open(OpenContext context) throws Exception {
            waiting = new LinkedBlockingQueue<>();
            client = end.connected();
            client.subscribe(end.topic(), AT_LEAST_ONCE, (topic, message) -> waiting.add(message.getPayload()));
        }

        @Override
        public void run(SourceContext<byte[]> to) throws Exception {
            while (wanted) {
                byte[] next = waiting.poll(LOOK_MILLIS, TimeUnit.MILLISECONDS);
                if (next != null) {
                    synchronized (to.getCheckpointLock()) {
                        to.collect(next);
                    }
                }
            }
        }

        @Override
        public void cancel() {
            wanted = false;
        }

        @Override
        public void close() throws Exception {
            End.leave(client);
        }
    }

    /** Each message is acknowledged before the next one is sent. */
    static final class Sink extends RichSinkFunction<byte[]> {
        private final End end;
        private transient MqttClient client;

        Sink(End end) {
            this.end = end;
        }

        @Override
        public void open(OpenContext context) throws Exception {
            client = end.connected();
        }

        @Override
        public void invoke(byte[] value, Context context) throws Exception {
            client.publish(end.topic(), value, AT_LEAST_ONCE, false);
        }

        @Override
        public void close() throws Exception {
            End.leave(client);
        }
    }
}
