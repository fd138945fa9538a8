package jobs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Writes paths, but for those beside which there is a file PATH.full: as a full disk would. */
public class Picky extends TypeSerializerSingleton<String> {
    @Override
    public void serialize(String path, DataOutputView target) throws IOException {
        if (Files.exists(Path.of(path + ".full"))) {
            throw new IOException("there is no space left");
        }
        target.writeUTF(path);
    }

    @Override
    public String deserialize(DataInputView source) throws IOException {
        return source.readUTF();
    }

    @Override
    public String deserialize(String reuse, DataInputView source) throws IOException {
        return source.readUTF();
    }

    @Override
    public void copy(DataInputView source, DataOutputView target) throws IOException {
        target.writeUTF(source.readUTF());
    }

    @Override
    public String copy(String from) {
        return from;
    }

    @Override
    public String copy(String from, String reuse) {
        return from;
    }

    @Override
    public String createInstance() {
        return "";
    }

    @Override
    public boolean isImmutableType() {
        return true;
    }

    @Override
    public int getLength() {
        return -1;
    }

    @Override
    public TypeSerializerSnapshot<String> snapshotConfiguration() {
        return new Snapshot();
    }

    public static final class Snapshot extends SimpleTypeSerializerSnapshot<String> {
        public Snapshot() {
            super(Picky::new);
        }
    }
}
