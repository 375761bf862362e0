package interop;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.remoting.RPCHook;

/** How a client shows who it is, and whether it encrypts. */
final class Access {
    private Access() {
    }

    /** What signs requests; null without an account. */
    static RPCHook hook(Arguments arguments) {
        if (!arguments.has("access_key")) {
            return null;
        }
        return new AclClientRPCHook(new SessionCredentials(arguments.text("access_key"), arguments.text("secret_key")));
    }

    /** Whom the virtual machine trusts is told by its flags. */
    static void encrypt(ClientConfig client, Arguments arguments) {
        client.setUseTLS(arguments.flag("tls"));
    }
}
