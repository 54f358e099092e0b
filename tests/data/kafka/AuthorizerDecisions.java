// Calls Kafka's StandardAuthorizer about random entries and writes what it decides.
//
// java -cp 'libs/*' AuthorizerDecisions.java WORLDS QUESTIONS SEED;
// `tests/conformance/authorizer_decisions.py` does so and describes the lines.

import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

public class AuthorizerDecisions {
    static final String[] NAMES = {
        "*", "a", "ab", "abc", "abd", "b", "ba", "a*", "*a", "kafka-cluster"
    };
    static final String[] PRINCIPALS = {"User:a", "User:b", "User:*", "Group:a", "User:a:b"};
    /** A user that is called "*" makes Kafka's class throw: a set of twice the same principal. */
    static final String[] ASKERS = {"User:a", "User:b", "Group:a", "User:a:b", "User:c"};
    static final String[] HOSTS = {"*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1"};
    static final ResourceType[] TYPES = {
        ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
    };
    static final PatternType[] PATTERNS = {PatternType.LITERAL, PatternType.PREFIXED};

    record Context(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() { return "CONTROLLER"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }

    static <T> T one(Random random, T[] values) {
        return values[random.nextInt(values.length)];
    }

    static AclOperation operation(Random random, int lowest) {
        return AclOperation.fromCode((byte) (lowest + random.nextInt(16 - lowest)));
    }

    static KafkaPrincipal principal(String text) {
        String[] parts = text.split(":", 2);
        return new KafkaPrincipal(parts[0], parts[1]);
    }

    public static void main(String[] args) throws Exception {
        int worlds = Integer.parseInt(args[0]);
        int questions = Integer.parseInt(args[1]);
        Random random = new Random(Long.parseLong(args[2]));
        StringBuilder lines = new StringBuilder();
        for (int world = 0; world < worlds; world++) {
            Metrics metrics = new Metrics();
            boolean everyone = random.nextInt(4) == 0;
            StandardAuthorizer authorizer = new StandardAuthorizer();
            authorizer.configure(Map.of(
                "super.users", "User:root; Group:roots",
                "allow.everyone.if.no.acl.found", Boolean.toString(everyone)));
            authorizer.withPluginMetrics(new PluginMetricsImpl(metrics, Map.of()));
            authorizer.completeInitialLoad();
            lines.append("world ").append(everyone ? 1 : 0).append('\n');
            List<StandardAcl> entries = new ArrayList<>();
            int count = random.nextInt(14);
            while (entries.size() < count) {
                StandardAcl acl = new StandardAcl(
                    one(random, TYPES), one(random, NAMES), one(random, PATTERNS),
                    one(random, PRINCIPALS), one(random, HOSTS), operation(random, 2),
                    random.nextInt(3) == 0 ? AclPermissionType.DENY : AclPermissionType.ALLOW);
                if (entries.contains(acl)) continue;
                entries.add(acl);
                authorizer.addAcl(new Uuid(1, entries.size()), acl);
                lines.append(String.join(" ", "entry",
                    "" + acl.resourceType().code(), acl.resourceName(),
                    "" + acl.patternType().code(), acl.principal(), acl.host(),
                    "" + acl.operation().code(), "" + acl.permissionType().code())).append('\n');
            }
            for (int question = 0; question < questions; question++) {
                String who = random.nextInt(20) == 0 ? "Group:roots" : one(random, ASKERS);
                String host = HOSTS[1 + random.nextInt(HOSTS.length - 1)];
                AclOperation operation = operation(random, 3);
                ResourceType type = one(random, TYPES);
                String name = one(random, NAMES);
                Context context = new Context(principal(who), InetAddress.getByName(host));
                ResourcePattern resource = new ResourcePattern(type, name, PatternType.LITERAL);
                Action action = new Action(operation, resource, 1, false, false);
                AuthorizationResult result = authorizer.authorize(context, List.of(action)).get(0);
                lines.append(String.join(" ", "ask", who, host, "" + operation.code(),
                    "" + type.code(), name,
                    result == AuthorizationResult.ALLOWED ? "1" : "0")).append('\n');
            }
            metrics.close();
        }
        System.out.print(lines);
    }
}
