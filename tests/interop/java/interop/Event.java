package interop;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** One JSON object on one line of standard output. */
final class Event {
    /** The real standard output. Everything that libraries print goes to standard error instead. */
    private static final PrintStream OUT =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);

    private final StringBuilder json = new StringBuilder(256);

    Event(int job, String event) {
        json.append("{\"job\":").append(job);
        with("event", event);
    }

    Event with(String key, String value) {
        key(key);
        if (value == null) {
            json.append("null");
        } else {
            quote(value);
        }
        return this;
    }

    Event with(String key, long value) {
        key(key);
        json.append(value);
        return this;
    }

    Event with(String key, Map<String, String> entries) {
        key(key);
        json.append('{');
        boolean first = true;
        for (Map.Entry<String, String> entry : entries.entrySet()) {
            if (!first) {
                json.append(',');
            }
            first = false;
            quote(entry.getKey());
            json.append(':');
            quote(entry.getValue());
        }
        json.append('}');
        return this;
    }

    void print() {
        json.append("}\n");
        synchronized (OUT) {
            OUT.append(json);
            OUT.flush();
        }
    }

    private void key(String key) {
        json.append(',');
        quote(key);
        json.append(':');
    }

    private void quote(String text) {
        json.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                json.append('\\').append(c);
            } else if (c < 0x20 || Character.isSurrogate(c)) {
                json.append(String.format("\\u%04x", (int) c));
            } else {
                json.append(c);
            }
        }
        json.append('"');
    }
}
