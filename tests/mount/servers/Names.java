import java.io.*;
import java.nio.file.*;

/** Creates files in the directory of the first argument, and prints how that ends; then lists it. */
public class Names {
    interface Attempt { void run() throws Exception; }

    static void attempt(String how, Attempt attempt) {
        try {
            attempt.run();
            System.out.println(how + ": done");
        } catch (Exception e) {
            String message = e.getMessage().replaceAll("(?s).*\\((.*)\\)$|.*: ", "$1");
            System.out.println(how + ": " + e.getClass().getSimpleName() + ": " + message.replaceAll("(?s).*\n.*", ""));
        }
    }

    public static void main(String[] arguments) throws Exception {
        File dir = new File(arguments[0]);
        for (String name : new String[] {"\u65e5\u672c.txt", "\u4e2d\u56fd.txt", "two\nlines"}) {
            attempt("io", () -> new FileOutputStream(new File(dir, name)).close());
            attempt("nio", () -> Files.writeString(dir.toPath().resolve(name), ""));
        }
        int readable = 0;
        for (String name : dir.list()) readable += new File(dir, name).canRead() ? 1 : 0;
        System.out.println(readable + " of " + dir.list().length + " can be read");
    }
}
