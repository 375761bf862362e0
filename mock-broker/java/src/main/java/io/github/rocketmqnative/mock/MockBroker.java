package io.github.rocketmqnative.mock;

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A RocketMQ name server and broker in a process of its own, for tests. It has free ports, keeps everything in memory, and ends
 * with {@link #close()}.
 *
 * <p>The command {@code rocketmq-mock-broker} is looked for in the environment variable {@code ROCKETMQ_MOCK_BROKER}, then on the
 * {@code PATH}. All that the command's console offers is reached by {@link #call}; the other methods are its most used parts.
 */
public final class MockBroker implements AutoCloseable {
    private static final Gson GSON = new Gson();

    private final Process process;
    private final String nameServer;
    private final String address;
    private final String console;
    private final HttpClient http = HttpClient.newHttpClient();

    private MockBroker(Process process, String ready) throws IOException {
        this.process = process;
        this.nameServer = field(ready, "name_server");
        this.address = field(ready, "broker");
        this.console = "http://" + field(ready, "console");
    }

    /** Starts a broker; {@code arguments} are further ones of the command, such as {@code --topic orders:4}. */
    public static MockBroker start(String... arguments) {
        List<String> command = new ArrayList<>(List.of(find(), "--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0",
                "--console", "127.0.0.1:0"));
        command.addAll(Arrays.asList(arguments));
        try {
            Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            Runtime.getRuntime().addShutdownHook(new Thread(process::destroy));
            String ready = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8)).readLine();
            if (ready == null) {
                throw new IllegalStateException("the broker did not start; what it wrote to standard error says why");
            }
            return new MockBroker(process, ready);
        } catch (IOException error) {
            throw new IllegalStateException("cannot run " + command.get(0) + ": " + error.getMessage(), error);
        }
    }

    private static String find() {
        String given = System.getenv("ROCKETMQ_MOCK_BROKER");
        if (given != null && !given.isEmpty()) {
            return given;
        }
        for (String directory : System.getenv().getOrDefault("PATH", "").split(java.io.File.pathSeparator)) {
            Path path = Path.of(directory, "rocketmq-mock-broker");
            if (Files.isExecutable(path)) {
                return path.toString();
            }
        }
        throw new IllegalStateException(
                "rocketmq-mock-broker is not on the PATH: install it, or name it in the environment variable ROCKETMQ_MOCK_BROKER");
    }

    private static String field(String ready, String name) {
        for (String word : ready.split(" ")) {
            if (word.startsWith(name + "=")) {
                return word.substring(name.length() + 1);
            }
        }
        throw new IllegalStateException("the broker did not say its " + name + ": " + ready);
    }

    /** Where clients find the name server, {@code host:port}. */
    public String nameServer() {
        return nameServer;
    }

    /** Where the broker is, {@code host:port}. */
    public String address() {
        return address;
    }

    /** Where the console is: a page to look at, and the control API, described at {@code /openapi.json}. */
    public String console() {
        return console;
    }

    /** Turns message time: delayed messages that are due by then have been stored when this returns. */
    public void advance(Duration by) {
        call("POST", "/v1/clock/advance", Map.of("ms", by.toMillis()));
    }

    /** Turns session time: clients that were silent are dropped, locks fall. */
    public void advanceSessions(Duration by) {
        call("POST", "/v1/clock/advance_sessions", Map.of("ms", by.toMillis()));
    }

    /** Puts a fault, such as {@code {"on":{"request":"send"},"times":2,"do":{"answer":{"code":2}}}}; it lasts until it is closed. */
    public Fault fault(String json) {
        JsonObject put = call("POST", "/v1/faults", GSON.fromJson(json, JsonElement.class)).getAsJsonObject();
        return new Fault(put.get("id").getAsLong());
    }

    /** A fault that lasts until it is closed. */
    public final class Fault implements AutoCloseable {
        private final long id;

        private Fault(long id) {
            this.id = id;
        }

        /** How many requests it has met. */
        public long hits() {
            for (JsonElement fault : call("GET", "/v1/faults", null).getAsJsonArray()) {
                if (fault.getAsJsonObject().get("id").getAsLong() == id) {
                    return fault.getAsJsonObject().get("hits").getAsLong();
                }
            }
            return 0;
        }

        @Override
        public void close() {
            call("DELETE", "/v1/faults/" + id, null);
        }
    }

    /** The requests of a family or a code that name a topic, the oldest first. */
    public JsonArray requests(String request, String topic) {
        return call("GET", "/v1/journal?kind=request&limit=10000&request=" + encode(request) + "&topic=" + encode(topic), null)
                .getAsJsonArray();
    }

    /** Waits up to half a minute for so many requests of a family or a code that name a topic. */
    public JsonArray waitForRequests(String request, String topic, int count) {
        Object body = Map.of("on", Map.of("request", request, "topic", topic), "count", count);
        return call("POST", "/v1/journal/wait", body).getAsJsonArray();
    }

    /** The messages of a topic, the latest first, each with topic, queue, offset, keys, tag, body and properties. */
    public JsonArray messages(String topic) {
        return call("GET", "/v1/messages?limit=10000&topic=" + encode(topic), null).getAsJsonArray();
    }

    /** Waits up to half a minute for so many messages in a topic. */
    public void waitForMessages(String topic, int count) {
        call("POST", "/v1/messages/wait", Map.of("topic", topic, "count", count));
    }

    /** Waits up to half a minute until a group has committed so many messages of a topic. */
    public void waitForConsumed(String group, String topic, int count) {
        call("POST", "/v1/groups/wait", Map.of("group", group, "topic", topic, "count", count));
    }

    /** Stores a message as if a client had sent it. */
    public void put(String topic, String body) {
        call("POST", "/v1/messages", Map.of("topic", topic, "body", body));
    }

    /** Starts over with nothing stored, no faults and an empty journal. */
    public void reset() {
        call("POST", "/v1/reset", null);
    }

    /**
     * Asks the control API.
     *
     * @throws IllegalStateException with what the broker says is wrong
     */
    public JsonElement call(String method, String path, Object body) {
        HttpRequest.BodyPublisher publisher =
                body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(GSON.toJson(body));
        HttpRequest request = HttpRequest.newBuilder(URI.create(console + path)).method(method, publisher)
                .header("content-type", "application/json").build();
        try {
            HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
            JsonElement answer = response.body().isEmpty() ? null : GSON.fromJson(response.body(), JsonElement.class);
            if (response.statusCode() >= 300) {
                throw new IllegalStateException(answer == null ? "status " + response.statusCode()
                        : answer.getAsJsonObject().get("error").getAsString());
            }
            return answer;
        } catch (IOException error) {
            throw new IllegalStateException("the broker at " + console + " does not answer: " + error.getMessage(), error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", error);
        }
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }

    @Override
    public void close() {
        process.destroy();
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            process.destroyForcibly();
        }
    }
}
