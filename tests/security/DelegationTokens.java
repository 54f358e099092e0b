import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.DescribeDelegationTokenOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RenewDelegationTokenOptions;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.DelegationTokenNotFoundException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;

/**
 * Everything that Kafka's own client does with delegation tokens, one line for each outcome.
 *
 * <p>Arguments: the brokers, and the secret key that the nodes share. root is a super user; alice,
 * bob and carol have the rights that root gives them.
 */
public final class DelegationTokens {
    private static final long HOUR_MS = 3_600_000;
    private static final Map<String, KafkaPrincipal> USERS =
            Map.of("alice", user("alice"), "bob", user("bob"), "carol", user("carol"));
    private static String brokers;

    public static void main(String[] arguments) throws Exception {
        brokers = arguments[0];
        try (Admin root = by("root");
                Admin alice = by("alice");
                Admin bob = by("bob");
                Admin carol = by("carol")) {
            permit(root, alice, bob);
            DelegationToken token = issue(alice, arguments[1]);
            others(alice, bob, carol);
            describe(root, alice, bob, carol);
            renew(alice, bob, carol, token);
            use(token);
            end(alice, bob, carol, token);
            expired(alice);
        }
    }

    private static void permit(Admin root, Admin alice, Admin bob) throws Exception {
        until(() -> await(root.describeCluster().nodes()).size() == 1);
        await(root.createAcls(List.of(
                allow("bob", ResourceType.USER, "User:alice", AclOperation.CREATE_TOKENS),
                allow("alice", ResourceType.TOPIC, "alices", AclOperation.CREATE)))
                .all());
        // A broker decides by the entries that it has replayed.
        List<DelegationToken> first = new ArrayList<>();
        until(() -> first.add(await(bob.createDelegationToken(of("alice")).delegationToken())));
        until(() -> await(alice.expireDelegationToken(first.get(0).hmac(), now()).expiryTimestamp()) > 0);
        until(() -> await(alice.describeDelegationToken().delegationTokens()).isEmpty());
    }

    private static DelegationToken issue(Admin alice, String secret) throws Exception {
        DelegationToken token = await(alice.createDelegationToken(
                        new CreateDelegationTokenOptions()
                                .renewers(List.of(USERS.get("bob")))
                                .maxLifetimeMs(HOUR_MS))
                .delegationToken());
        say("issued", shown(token));
        Mac mac = Mac.getInstance("HmacSHA512");
        mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA512"));
        byte[] hmac = mac.doFinal(token.tokenInfo().tokenId().getBytes(StandardCharsets.UTF_8));
        say("its hmac is that of its id", Arrays.equals(hmac, token.hmac()));
        until(() -> !await(alice.describeDelegationToken().delegationTokens()).isEmpty());
        return token;
    }

    private static void others(Admin alice, Admin bob, Admin carol) {
        outcome("for ever", () -> lifetimes(await(alice.createDelegationToken(
                new CreateDelegationTokenOptions().maxLifetimeMs(Long.MAX_VALUE)).delegationToken())));
        outcome("by default", () -> lifetimes(await(alice.createDelegationToken().delegationToken())));
        outcome("for another, with the right", () -> shown(
                await(bob.createDelegationToken(of("alice")).delegationToken())));
        outcome("for another, without", () -> shown(
                await(carol.createDelegationToken(of("alice")).delegationToken())));
        outcome("renewed by a group", () -> shown(await(alice.createDelegationToken(
                        new CreateDelegationTokenOptions()
                                .renewers(List.of(new KafkaPrincipal("Group", "staff"))))
                .delegationToken())));
    }

    private static void describe(Admin root, Admin alice, Admin bob, Admin carol) throws Exception {
        until(() -> await(alice.describeDelegationToken().delegationTokens()).size() == 4);
        outcome("alice sees", () -> described(alice, null));
        outcome("bob sees", () -> described(bob, null));
        outcome("carol sees", () -> described(carol, null));
        outcome("root sees", () -> described(root, null));
        outcome("root asks for bob's", () -> described(root, List.of(USERS.get("bob"))));
        outcome("root asks for carol's", () -> described(root, List.of(USERS.get("carol"))));
        outcome("root asks for nobody's", () -> described(root, List.of()));
        await(root.createAcls(List.of(
                allow("carol", ResourceType.USER, "User:alice", AclOperation.DESCRIBE_TOKENS))).all());
        until(() -> !described(carol, null).equals("[]"));
        outcome("carol sees with the right", () -> described(carol, null));
    }

    private static void renew(Admin alice, Admin bob, Admin carol, DelegationToken token) {
        long max = token.tokenInfo().maxTimestamp();
        outcome("renewed by a renewer", () -> await(bob.renewDelegationToken(token.hmac(),
                new RenewDelegationTokenOptions().renewTimePeriodMs(2 * HOUR_MS)).expiryTimestamp()) == max);
        outcome("renewed for less", () -> await(alice.renewDelegationToken(token.hmac(),
                new RenewDelegationTokenOptions().renewTimePeriodMs(HOUR_MS / 2)).expiryTimestamp()) < max);
        outcome("renewed by another", () -> await(
                carol.renewDelegationToken(token.hmac()).expiryTimestamp()));
        outcome("renewed that never was", () -> await(
                alice.renewDelegationToken("made up".getBytes(StandardCharsets.UTF_8)).expiryTimestamp()));
    }

    private static void use(DelegationToken token) throws Exception {
        String id = token.tokenInfo().tokenId();
        for (String mechanism : List.of("SCRAM-SHA-256", "SCRAM-SHA-512")) {
            try (Admin holder = with(mechanism, id, token.hmacAsBase64String())) {
                outcome(mechanism + ": alice's right", () -> created(holder, "alices"));
                outcome(mechanism + ": not alice's", () -> created(holder, "another"));
                outcome(mechanism + ": issues", () -> shown(
                        await(holder.createDelegationToken().delegationToken())));
                outcome(mechanism + ": renews", () -> await(
                        holder.renewDelegationToken(token.hmac()).expiryTimestamp()));
                outcome(mechanism + ": expires", () -> await(
                        holder.expireDelegationToken(token.hmac(), now()).expiryTimestamp()));
                outcome(mechanism + ": describes", () -> described(holder, null));
            }
            try (Admin thief = with(mechanism, id, "guessed")) {
                outcome(mechanism + ": a guess", () -> created(thief, "alices"));
            }
            try (Admin nobody = with(mechanism, "no-such-token", "guessed")) {
                outcome(mechanism + ": no token", () -> created(nobody, "alices"));
            }
        }
    }

    private static void end(Admin alice, Admin bob, Admin carol, DelegationToken token)
            throws Exception {
        outcome("ended by another", () -> await(
                carol.expireDelegationToken(token.hmac(), now()).expiryTimestamp()));
        outcome("ends sooner", () -> await(bob.expireDelegationToken(token.hmac(),
                new ExpireDelegationTokenOptions().expiryTimePeriodMs(HOUR_MS / 4)).expiryTimestamp())
                        < token.tokenInfo().maxTimestamp());
        outcome("ends at once", () -> await(
                alice.expireDelegationToken(token.hmac(), now()).expiryTimestamp())
                        <= System.currentTimeMillis());
        until(() -> await(alice.describeDelegationToken().delegationTokens()).size() == 3);
        // A controller of Kafka decides by a cache that lags, too, and then a renewal would bring the
        // token back.
        until(() -> isGone(alice, token));
        outcome("renewed when it is gone", () -> await(
                alice.renewDelegationToken(token.hmac()).expiryTimestamp()));
        outcome("ended when it is gone", () -> await(
                alice.expireDelegationToken(token.hmac(), now()).expiryTimestamp()));
        try (Admin holder = with(
                "SCRAM-SHA-256", token.tokenInfo().tokenId(), token.hmacAsBase64String())) {
            outcome("used when it is gone", () -> created(holder, "alices"));
        }
    }

    private static boolean isGone(Admin alice, DelegationToken token) throws Exception {
        try {
            await(alice.expireDelegationToken(token.hmac(), now()).expiryTimestamp());
            return false;
        } catch (DelegationTokenNotFoundException gone) {
            return true;
        }
    }

    private static void expired(Admin alice) throws Exception {
        DelegationToken token = await(alice.createDelegationToken(
                new CreateDelegationTokenOptions().maxLifetimeMs(1_000)).delegationToken());
        until(() -> await(alice.describeDelegationToken().delegationTokens()).size() == 4);
        Thread.sleep(1_200);
        outcome("described when it has expired",
                () -> await(alice.describeDelegationToken().delegationTokens()).size());
        outcome("renewed when it has expired", () -> await(
                alice.renewDelegationToken(token.hmac()).expiryTimestamp()));
        outcome("prolonged when it has expired", () -> await(alice.expireDelegationToken(token.hmac(),
                new ExpireDelegationTokenOptions().expiryTimePeriodMs(HOUR_MS)).expiryTimestamp()));
        try (Admin holder = with(
                "SCRAM-SHA-256", token.tokenInfo().tokenId(), token.hmacAsBase64String())) {
            outcome("used when it has expired", () -> created(holder, "alices"));
        }
        outcome("ended when it has expired", () -> await(
                alice.expireDelegationToken(token.hmac(), now()).expiryTimestamp())
                        <= System.currentTimeMillis());
    }

    private static ExpireDelegationTokenOptions now() {
        return new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1);
    }

    private static CreateDelegationTokenOptions of(String owner) {
        return new CreateDelegationTokenOptions().owner(USERS.get(owner));
    }

    private static String created(Admin admin, String topic) throws Exception {
        await(admin.createTopics(
                        Set.of(new NewTopic(topic, 1, (short) 1)),
                        new org.apache.kafka.clients.admin.CreateTopicsOptions().validateOnly(true))
                .all());
        return "may create";
    }

    private static String described(Admin admin, List<KafkaPrincipal> owners) throws Exception {
        Collection<DelegationToken> found = await(admin.describeDelegationToken(
                new DescribeDelegationTokenOptions().owners(owners)).delegationTokens());
        List<String> lines = new ArrayList<>(found.stream().map(DelegationTokens::shown).toList());
        lines.sort(Comparator.naturalOrder());
        return lines.toString();
    }

    private static String shown(DelegationToken token) {
        var info = token.tokenInfo();
        return info.owner() + " by " + info.tokenRequester() + " renewers " + info.renewers()
                + " hmac " + token.hmac().length + " id " + info.tokenId().length();
    }

    private static String lifetimes(DelegationToken token) {
        var info = token.tokenInfo();
        return (info.expiryTimestamp() - info.issueTimestamp()) + " of "
                + (info.maxTimestamp() - info.issueTimestamp()) + " ms";
    }

    private static AclBinding allow(
            String user, ResourceType type, String name, AclOperation operation) {
        return new AclBinding(
                new ResourcePattern(type, name, PatternType.LITERAL),
                new AccessControlEntry(
                        USERS.get(user).toString(), "*", operation, AclPermissionType.ALLOW));
    }

    private static KafkaPrincipal user(String name) {
        return new KafkaPrincipal(KafkaPrincipal.USER_TYPE, name);
    }

    private static Admin by(String name) {
        return admin("PLAIN", "plain.PlainLoginModule required username=\"" + name
                + "\" password=\"of " + name + "\";");
    }

    private static Admin with(String mechanism, String id, String password) {
        return admin(mechanism, "scram.ScramLoginModule required username=\"" + id
                + "\" password=\"" + password + "\" tokenauth=true;");
    }

    private static Admin admin(String mechanism, String login) {
        return Admin.create(Map.of(
                "bootstrap.servers", brokers,
                "security.protocol", "SASL_PLAINTEXT",
                "sasl.mechanism", mechanism,
                "sasl.jaas.config", "org.apache.kafka.common.security." + login,
                "reconnect.backoff.max.ms", 200,
                "request.timeout.ms", 3_000,
                "default.api.timeout.ms", 4_000));
    }

    private static <T> T await(org.apache.kafka.common.KafkaFuture<T> future) throws Exception {
        try {
            return future.get(60, TimeUnit.SECONDS);
        } catch (ExecutionException failed) {
            throw (Exception) failed.getCause();
        }
    }

    private static void until(Callable<Boolean> holds) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (true) {
            try {
                if (holds.call()) {
                    return;
                }
            } catch (org.apache.kafka.common.errors.DelegationTokenAuthorizationException
                    | DelegationTokenNotFoundException
                    | org.apache.kafka.common.errors.TimeoutException early) {
                // the node has begun, or what was written is not yet seen there
            }
            if (System.nanoTime() > end) {
                throw new IllegalStateException("a change is not seen");
            }
            Thread.sleep(20);
        }
    }

    private static void outcome(String what, Callable<?> call) {
        try {
            say(what, call.call());
        } catch (SaslAuthenticationException refused) {
            say(what, refused.getClass().getSimpleName());
        } catch (Exception failed) {
            say(what, failed.getClass().getSimpleName());
        }
    }

    private static void say(String what, Object outcome) {
        System.out.println(what + " -> " + outcome);
    }
}
