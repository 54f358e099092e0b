import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Runs the operations of Java's Admin, of its producer and consumer, and of Kafka's tools.
 *
 * <p>Arguments: the brokers, the controllers, the client. Each operation is a line of JSON on the
 * standard output. A line "restart controllers" asks for that; it is done when a line comes in.
 */
public final class Program {
    /** What an operation does; it returns what it saw, in words that are equal where behaviour is. */
    interface Operation {
        Object run() throws Exception;
    }

    private static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in));
    private static final java.io.PrintStream OUT = System.out;
    private final String client;

    Program(String client) {
        this.client = client + " " + AppInfoParser.getVersion();
    }

    void operation(String name, Operation operation) {
        String outcome;
        Object seen;
        try {
            seen = operation.run();
            outcome = "works";
        } catch (Throwable error) {
            outcome = "fails";
            seen = describe(error);
        }
        print(Map.of("client", client, "operation", name, "outcome", outcome, "seen", seen == null ? "" : "" + seen));
    }

    /** An operation that must be refused: what works is the refusal. */
    void refused(String name, Class<? extends Throwable> expected, Operation operation) {
        operation(name, () -> {
            Object seen;
            try {
                seen = operation.run();
            } catch (Throwable error) {
                Throwable cause = cause(error);
                if (expected.isInstance(cause)) {
                    return cause.getClass().getSimpleName();
                }
                throw error;
            }
            throw new IllegalStateException("not refused: " + seen);
        });
    }

    static Throwable cause(Throwable error) {
        return error instanceof ExecutionException && error.getCause() != null ? error.getCause() : error;
    }

    private static String describe(Throwable error) {
        Throwable cause = cause(error);
        String name = cause.getClass().getSimpleName();
        return cause.getMessage() == null ? name : name + ": " + cause.getMessage();
    }

    /** Has the harness restart active controllers; done says when it has. */
    void restartControllers(Runnable meanwhile) throws Exception {
        print(Map.of("client", client, "ask", "restart controllers"));
        while (!IN.ready()) {
            meanwhile.run();
            Thread.sleep(100);
        }
        IN.readLine();
    }

    private static void print(Map<String, String> fields) {
        StringBuilder line = new StringBuilder("{");
        fields.forEach((key, value) -> {
            line.append(line.length() > 1 ? "," : "");
            line.append(quoted(key)).append(":").append(quoted(value));
        });
        OUT.println(line.append("}"));
        OUT.flush();
    }

    private static String quoted(String text) {
        StringBuilder found = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                found.append('\\').append(each);
            } else if (each < ' ') {
                found.append(String.format("\\u%04x", (int) each));
            } else {
                found.append(each);
            }
        }
        return found.append('"').toString();
    }

    public static void main(String[] arguments) throws Exception {
        switch (arguments[2]) {
            case "admin" -> {
                Program program = new Program("Java clients");
                AdminOperations.run(program, arguments[0], arguments[1]);
                DataOperations.run(program, arguments[0]);
            }
            case "tools" -> ToolOperations.run(new Program("Kafka's tools"), arguments[0], arguments[1]);
            default -> throw new IllegalArgumentException(arguments[2]);
        }
        System.exit(0);
    }
}
