package interop;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs one mqadmin command of this version and tells what it printed. */
final class Tool {
    private Tool() {
    }

    /** One at a time: the command writes to the process-wide standard output. */
    static synchronized void run(int job, Arguments arguments) {
        System.setProperty("rocketmq.namesrv.addr", arguments.text("name_server"));
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream before = System.out;
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            MQAdminStartup.main0(arguments.text("line").split(" +"), null);
        } finally {
            System.setOut(before);
        }
        new Event(job, "done").with("output", printed.toString(StandardCharsets.UTF_8)).print();
    }
}
