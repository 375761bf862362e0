package interop;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.client.ClientConfig;

/** The {@code key=value} words of one command, values percent-encoded. */
final class Arguments {
    private final Map<String, String> values = new LinkedHashMap<>();

    Arguments(String[] words, int from) {
        for (int i = from; i < words.length; i++) {
            int equals = words[i].indexOf('=');
            if (equals <= 0) {
                throw new IllegalArgumentException("expected key=value, found: " + words[i]);
            }
            values.put(decode(words[i].substring(0, equals)), decode(words[i].substring(equals + 1)));
        }
    }

    /** Puts a client into the namespace, if one is given. By reflection, as clients before 4.5 have none. */
    static void enterNamespace(ClientConfig client, Arguments arguments) throws Exception {
        if (arguments.has("namespace")) {
            client.getClass().getMethod("setNamespace", String.class).invoke(client, arguments.text("namespace"));
        }
    }

    private static String decode(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }

    boolean has(String key) {
        return values.containsKey(key);
    }

    String text(String key) {
        String value = values.get(key);
        if (value == null) {
            throw new IllegalArgumentException("missing argument: " + key);
        }
        return value;
    }

    String text(String key, String otherwise) {
        return values.getOrDefault(key, otherwise);
    }

    int number(String key, int otherwise) {
        return has(key) ? Integer.parseInt(values.get(key)) : otherwise;
    }

    boolean flag(String key) {
        return Boolean.parseBoolean(values.getOrDefault(key, "false"));
    }

    /** All arguments whose key starts with the prefix, the prefix removed. */
    Map<String, String> startingWith(String prefix) {
        Map<String, String> found = new LinkedHashMap<>();
        values.forEach((key, value) -> {
            if (key.startsWith(prefix)) {
                found.put(key.substring(prefix.length()), value);
            }
        });
        return found;
    }
}
