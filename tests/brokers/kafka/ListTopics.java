import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;

/** Lists the topics that a client with each file of properties sees, or why it sees none. */
public class ListTopics {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties properties = new Properties();
            try (Reader reader = Files.newBufferedReader(Path.of(file), StandardCharsets.UTF_8)) {
                properties.load(reader);
            }
            System.out.println(seen(properties));
        }
    }

    private static String seen(Properties properties) {
        try (Admin admin = Admin.create(properties)) {
            return new TreeSet<>(admin.listTopics().names().get(20, TimeUnit.SECONDS)).toString();
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            return error.toString();
        }
    }
}
