package jobs;

/** Fails before there is anything to run: by an error or, with an argument, by an exit. */
public class Throws {
    public static void main(String[] arguments) {
        if (arguments.length > 0 && arguments[0].equals("exit")) {
            System.exit(3);
        }
        throw new IllegalArgumentException("no topic was given");
    }
}
