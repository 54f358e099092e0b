import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.DynamicConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Writes what Kafka's own classes say of every configuration key, one line for each. */
public class Definitions {
    private static final ObjectMapper JSON = new ObjectMapper()
            .configure(JsonWriteFeature.ESCAPE_NON_ASCII.mappedFeature(), true);

    public static void main(String[] arguments) throws Exception {
        ConfigDef broker = AbstractKafkaConfig.CONFIG_DEF;
        Map<String, ConfigDef> scopes = new LinkedHashMap<>();
        scopes.put("topic", LogConfig.configDefCopy());
        scopes.put("broker", broker);
        scopes.put("dynamic-broker", (ConfigDef) field(DynamicConfig.Broker.class, null, "BROKER_CONFIGS"));
        scopes.put("group", GroupConfig.CONFIG_DEF);
        scopes.put("client-metrics", ClientMetricsConfigs.configDef());
        StringBuilder out = new StringBuilder("{\n\"version\": ");
        out.append(JSON.writeValueAsString(AppInfoParser.getVersion()));
        for (Map.Entry<String, ConfigDef> scope : scopes.entrySet()) {
            List<Object> lines = new ArrayList<>();
            for (ConfigDef.ConfigKey key : scope.getValue().configKeys().values())
                    if (!scope.getKey().equals("dynamic-broker") || !broker.configKeys().containsKey(key.name))
                    lines.add(described(key));
            list(out, scope.getKey(), lines);
        }
        Map<String, String> modes = new TreeMap<>(DynamicBrokerConfig.dynamicConfigUpdateModes());
        list(out, "per-broker", names(modes, "per-broker"));
        list(out, "cluster-wide", names(modes, "cluster-wide"));
        TreeSet<String> readOnly = new TreeSet<>();
        Properties all = new Properties();
        for (String name : broker.configKeys().keySet()) all.put(name, "");
        readOnly.addAll(DynamicBrokerConfig.nonDynamicConfigs(all));
        list(out, "not-dynamic", readOnly);
        list(out, "per-listener", new TreeSet<>(DynamicBrokerConfig.securityConfigsWithoutListenerPrefix(all)));
        list(out, "cluster-wide-of-listeners",
                new TreeSet<>((Collection<?>) field(DynamicBrokerConfig.class, null, "CLUSTER_LEVEL_LISTENER_CONFIGS")));
        list(out, "per-mechanism",
                new TreeSet<>((Collection<?>) field(DynamicBrokerConfig.class, null, "LISTENER_MECHANISM_CONFIGS")));
        List<Object> synonyms = new ArrayList<>();
        for (String name : new TreeSet<>(broker.configKeys().keySet())) {
            List<String> others = DynamicBrokerConfig.brokerConfigSynonyms(name, true);
            if (others.size() > 1) synonyms.add(List.of(name, others));
        }
        list(out, "broker-synonyms", synonyms);
        synonyms = new ArrayList<>();
        for (Map.Entry<String, List<ConfigSynonym>> each :
                new TreeMap<>(ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS).entrySet()) {
            List<Object> others = new ArrayList<>();
            for (ConfigSynonym other : each.getValue())  // with the factor to the topic's unit
            others.add(List.of(other.name(), Long.valueOf(other.converter().apply("1"))));
            synonyms.add(List.of(each.getKey(), others));
        }
        list(out, "topic-synonyms", synonyms);
        synonyms = new ArrayList<>();
        for (String name : new TreeSet<>(GroupConfig.CONFIG_DEF.configKeys().keySet()))
                if (GroupConfig.brokerSynonym(name).isPresent())
                synonyms.add(List.of(name, GroupConfig.brokerSynonym(name).get()));
        list(out, "group-synonyms", synonyms);
        System.out.println(out.append("\n}"));
    }

    private static Map<String, Object> described(ConfigDef.ConfigKey key) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("name", key.name);
        found.put("type", key.type.name());
        if (key.hasDefault() && key.defaultValue != null) found.put("default", key.type == ConfigDef.Type.PASSWORD
                ? "" : ConfigDef.convertToString(key.defaultValue, key.type));
        if (key.validator != null) found.put("valid", valid(key.validator));
        if (key.internalConfig) found.put("internal", true);
        found.put("importance", key.importance.name());
        if (key.documentation != null) found.put("doc", key.documentation);
        return found;
    }

    private static Object valid(ConfigDef.Validator validator) throws Exception {
        if (validator instanceof ConfigDef.Range) {
            Object min = field(ConfigDef.Range.class, validator, "min");
            Object max = field(ConfigDef.Range.class, validator, "max");
            return entry("range", min == null ? List.of() : List.of(min), max == null ? List.of() : List.of(max));
        }
        if (validator instanceof ConfigDef.ValidList) {
            Object inner = field(ConfigDef.ValidList.class, validator, "validString");
            return entry("list", field(ConfigDef.ValidString.class, inner, "validStrings"),
                    field(ConfigDef.ValidList.class, validator, "isEmptyAllowed"),
                    field(ConfigDef.ValidList.class, validator, "isNullAllowed"));
        }
        if (validator instanceof ConfigDef.ValidString)
                return entry("one of", field(ConfigDef.ValidString.class, validator, "validStrings"));
        if (validator instanceof ConfigDef.CaseInsensitiveValidString) {
            Collection<?> strings =
                    (Collection<?>) field(ConfigDef.CaseInsensitiveValidString.class, validator, "validStrings");
            return entry("one of, in any case", new TreeSet<>(strings));
        }
        if (validator instanceof ConfigDef.LambdaValidator) return entry("described", validator.toString());
        return entry("class", validator.getClass().getName());
    }

    private static List<Object> entry(Object... parts) {
        return List.of(parts);
    }

    private static Object field(Class<?> owner, Object object, String name) throws Exception {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(object);
    }

    private static List<String> names(Map<String, String> modes, String wanted) {
        List<String> found = new ArrayList<>();
        for (Map.Entry<String, String> mode : modes.entrySet()) if (mode.getValue().equals(wanted))
                found.add(mode.getKey());
        return found;
    }

    private static void list(StringBuilder out, String name, Collection<?> items) throws Exception {
        out.append(",\n").append(JSON.writeValueAsString(name)).append(": [");
        String separator = "\n";
        for (Object item : items) {
            out.append(separator).append(JSON.writeValueAsString(item));
            separator = ",\n";
        }
        out.append("\n]");
    }
}
