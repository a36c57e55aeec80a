"""Serves a new Keystone on a port of the kernel's choice, which is the first line that it writes."""
import os
import socketserver
import subprocess
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

folder, manage = sys.argv[1], sys.argv[2]
conf = os.path.join(folder, "keystone.conf")
for name in ("fernet", "credential"):
    os.mkdir(os.path.join(folder, name), 0o700)
with open(conf, "w") as f:
    f.write("[DEFAULT]\nlog_file = {0}/log\n[database]\nconnection = sqlite:///{0}/db\n[cache]\nenabled = false\n"
            "[fernet_tokens]\nkey_repository = {0}/fernet\n[credential]\nkey_repository = {0}/credential\n".format(folder))
me = ["--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid())]
for words in (["db_sync"], ["fernet_setup"] + me, ["credential_setup"] + me,
              ["bootstrap", "--bootstrap-password", "secret", "--bootstrap-region-id", "RegionOne",
               "--bootstrap-public-url", "http://keystone.test/v3"]):
    subprocess.run([sys.executable, manage, "--config-file", conf] + words, stdout=sys.stderr, check=True)

sys.argv = ["keystone", "--config-file", conf]
from keystone.server.wsgi import initialize_public_application  # noqa: E402: it reads sys.argv


class Quiet(WSGIRequestHandler):
    def log_message(self, *words):
        pass


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


server = make_server("127.0.0.1", 0, initialize_public_application(), server_class=Server, handler_class=Quiet)
print(server.server_port, flush=True)
server.serve_forever()
