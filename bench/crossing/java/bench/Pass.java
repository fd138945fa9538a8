package bench;

import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Passes records from a topic to another: BOOT SOURCE SINK OPERATORS. */
public final class Pass {
    private Pass() {}

    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(1);
        env.enableCheckpointing(60_000);
        env.setBufferTimeout(0);
        KafkaSource<byte[]> source =
                KafkaSource.<byte[]>builder()
                        .setBootstrapServers(args[0])
                        .setTopics(args[1])
                        .setGroupId("flink-" + args[1])
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setProperty("fetch.max.wait.ms", "500")
                        .setValueOnlyDeserializer(new Bytes())
                        .build();
        KafkaSink<byte[]> sink =
                KafkaSink.<byte[]>builder()
                        .setBootstrapServers(args[0])
                        .setRecordSerializer(
                                KafkaRecordSerializationSchema.<byte[]>builder()
                                        .setTopic(args[2])
                                        .setValueSerializationSchema(new Bytes())
                                        .build())
                        .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                        .setProperty("linger.ms", "0")
                        .setProperty("acks", "all")
                        .build();
        DataStream<byte[]> stream =
                env.fromSource(source, WatermarkStrategy.noWatermarks(), args[1]);
        for (int number = 0; number < Integer.parseInt(args[3]); number++) {
            stream = stream.map(value -> value).returns(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
        }
        stream.sinkTo(sink);
        env.execute(args[1]);
    }

    /** Values as they are. */
    public static final class Bytes
            implements DeserializationSchema<byte[]>, SerializationSchema<byte[]> {
        private static final long serialVersionUID = 1L;

        @Override
        public byte[] deserialize(byte[] value) {
            return value;
        }

        @Override
        public byte[] serialize(byte[] value) {
            return value;
        }

        @Override
        public void open(DeserializationSchema.InitializationContext context) {}

        @Override
        public void open(SerializationSchema.InitializationContext context) {}

        @Override
        public boolean isEndOfStream(byte[] value) {
            return false;
        }

        @Override
        public TypeInformation<byte[]> getProducedType() {
            return PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
        }
    }
}
