package example;

import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.RichSourceFunction;
import org.apache.flink.util.ParameterTool;
import org.eclipse.paho.client.mqttv3.MqttClient;
import org.eclipse.paho.client.mqttv3.MqttConnectOptions;
import org.eclipse.paho.client.mqttv3.MqttException;
import org.eclipse.paho.client.mqttv3.persist.MemoryPersistence;

/** From a topic of MQTT to another one: adds the number of its jar to each record. */
public class ExampleJob {
    public static void main(String[] given) throws Exception {
        ParameterTool arguments = ParameterTool.fromArgs(given);
        String label = label();
        StreamExecutionEnvironment here = StreamExecutionEnvironment.getExecutionEnvironment();
        here.setParallelism(1);
        here.addSource(new From(arguments.getRequired("source_broker"), arguments.getRequired("source_topic")))
            .map(value -> value + "/" + label)
            .returns(String.class)
            .addSink(new To(arguments.getRequired("sink_broker"), arguments.getRequired("sink_topic")));
        here.execute();
    }

    private static String label() throws Exception {
        try (InputStream file = ExampleJob.class.getResourceAsStream("/label")) {
            return new String(file.readAllBytes(), StandardCharsets.UTF_8).trim();
        }
    }

    private static MqttClient connected(String broker) throws MqttException {
        MqttClient client = new MqttClient(broker, "example-" + UUID.randomUUID(), new MemoryPersistence());
        MqttConnectOptions options = new MqttConnectOptions();
        options.setAutomaticReconnect(true);
        options.setMaxInflight(1000);
        client.connect(options);
        return client;
    }

    /** It is subscribed when Flink says that it runs. */
    public static class From extends RichSourceFunction<String> {
        private final String broker;
        private final String topic;
        private transient LinkedBlockingQueue<String> values;
        private transient MqttClient client;
        private volatile boolean running = true;

        From(String broker, String topic) {
            this.broker = broker;
            this.topic = topic;
        }

        @Override
        public void open(OpenContext context) throws Exception {
            values = new LinkedBlockingQueue<>();
            client = connected(broker);
            client.subscribe(topic, 1, (name, message) ->
                values.add(new String(message.getPayload(), StandardCharsets.UTF_8)));
        }

        @Override
        public void run(SourceContext<String> context) throws Exception {
            while (running) {
                String value = values.poll(100, TimeUnit.MILLISECONDS);
                if (value != null) {
                    synchronized (context.getCheckpointLock()) {
                        context.collect(value);
                    }
                }
            }
        }

        @Override
        public void cancel() {
            running = false;
        }

        @Override
        public void close() throws Exception {
            if (client != null) {
                client.disconnectForcibly(0, 0, false);
                client.close(true);
            }
        }
    }

    /** Each record is acknowledged before the next. */
    public static class To extends RichSinkFunction<String> {
        private final String broker;
        private final String topic;
        private transient MqttClient client;

        To(String broker, String topic) {
            this.broker = broker;
            this.topic = topic;
        }

        @Override
        public void open(OpenContext context) throws Exception {
            client = connected(broker);
        }

        @Override
        public void invoke(String value, Context context) throws Exception {
            client.publish(topic, value.getBytes(StandardCharsets.UTF_8), 1, false);
        }

        @Override
        public void close() throws Exception {
            if (client != null) {
                client.disconnectForcibly(0, 0, false);
                client.close(true);
            }
        }
    }
}
