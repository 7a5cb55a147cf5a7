# SPDX-License-Identifier: Apache-2.0
"""AWS on loopback, run by the interpreter of tools/moto_env.sh: moto's server behind a proxy that does what moto leaves
out. It checks every signature with botocore, takes a client token for what it is, serves credentials as an instance's
metadata service does, and misbehaves on order. Prints its URL; ends when its stdin does. Its
arguments: the address where it listens (loopback without one), and a file of authorized keys, which gets the public half
of each instance's key pair, as an instance's own gets it when it boots.

Control: GET /_/calls, POST /_/faults {action: [fault, ...]}, POST /_/reset (everything, moto too), POST /_/boto SCRIPT
(Python with boto3's clients ec2 and iam; answers its `result` as JSON), and POST /_/addresses [[public, private], ...].
A fault is used up by one call: {"status", "code", "message"} refuses it, {"status", "body"} answers it, {"is_lost": true}
lets it happen and drops the answer, {} lets it pass. An instance gets the first pair of addresses that no living one has,
and keeps it until it is terminated; further instances have addresses that lead nowhere."""

import http.client
import http.server
import json
import os
import re
import sys
import threading
import urllib.parse

os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"

import boto3  # noqa: E402
from botocore.auth import SigV4Auth  # noqa: E402
from botocore.awsrequest import AWSRequest  # noqa: E402
from botocore.credentials import Credentials  # noqa: E402
from moto.ec2.models import ec2_backends  # noqa: E402
from moto.ec2.models.instances import Instance  # noqa: E402
from moto.iam.models import iam_backends  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

SECRETS = {"testing": "testing", "ASIASERVED": "served/secret+key", "ASIAROLE": "role-secret"}
TOKENS = {"ASIASERVED": "served-token=="}
METADATA_TOKEN = "metadata-token"
ROLE = "head-role"


class State:
    """What the handlers share; the lock guards it all."""

    def __init__(self, moto, authorized_keys):
        self.moto = moto
        self.addresses = Addresses(authorized_keys)
        words = {"endpoint_url": "http://{}:{}".format(*moto), "region_name": "us-west-2"}
        self.clients = {name: boto3.client(name, **words) for name in ("ec2", "iam")}
        self.lock = threading.Lock()
        self.clear()

    def clear(self):
        self.calls, self.faults, self.launched = [], {}, {}


class Addresses:
    """Gives moto's instances addresses that lead somewhere. In moto itself, so that whatever it answers agrees."""

    def __init__(self, authorized_keys):
        self.authorized_keys = authorized_keys
        self.lock = threading.Lock()
        self.pairs, self.owners = [], []  # owners: an instance or None for each pair
        create = Instance.__init__

        def create_with_addresses(instance, *words, **names):
            create(instance, *words, **names)
            self.give(instance)
            key = instance.ec2_backend.key_pairs.get(instance.key_name)
            if key is not None and self.authorized_keys:
                with open(self.authorized_keys, "a", encoding="ascii") as keys:
                    keys.write(key.public_key.strip() + "\n")

        Instance.__init__ = create_with_addresses
        self.replace("public_ip", 0)
        self.replace("public_ip_address", 0)
        self.replace("private_ip", 1)
        self.replace("private_ip_address", 1)

    def replace(self, name, which):
        motos = getattr(Instance, name).fget

        def read(instance):
            with self.lock:
                found = [pair for pair, owner in zip(self.pairs, self.owners) if owner is instance]
            # None: a stopped instance has no public address.
            return motos(instance) if not found or motos(instance) is None else found[0][which]

        setattr(Instance, name, property(read))

    def set(self, pairs):
        with self.lock:
            self.pairs, self.owners = pairs, [None] * len(pairs)

    def forget_owners(self):
        self.set(self.pairs)

    def give(self, instance):
        with self.lock:
            for place, owner in enumerate(self.owners):
                if owner is None or owner.state == "terminated":
                    self.owners[place] = instance
                    return


def empty_account():
    """Not moto's own reset, which reads all of Amazon's policies again."""
    for regions in ec2_backends.values():
        for backend in regions.values():
            backend.reset()
    for partitions in iam_backends.values():
        for backend in partitions.values():
            backend.roles.clear()
            backend.instance_profiles.clear()


def ec2_error(code, message):
    return (f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
            f"<RequestID>1</RequestID></Response>").encode()


def signature_fault(method, host, path, headers, body):
    """Why the signature is not the one that AWS would compute; None if it is."""
    found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request, "
                         r"SignedHeaders=([^,]+), Signature=([0-9a-f]{64})", headers.get("Authorization", ""))
    if not found:
        return "no signature"
    key, region, service, signed, signature = found.groups()
    if key not in SECRETS:
        return f"unknown access key {key}"
    if headers.get("X-Amz-Security-Token") != TOKENS.get(key):
        return "wrong session token"
    if key in TOKENS and "x-amz-security-token" not in signed.split(";"):
        return "the session token is not signed"
    request = AWSRequest(method=method, url=f"http://{host}{path}", data=body,
                         headers={name: headers[name] for name in signed.split(";")})
    request.context["timestamp"] = headers["X-Amz-Date"]
    signer = SigV4Auth(Credentials(key, SECRETS[key]), service, region)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    return None if signer.signature(text, request) == signature else "wrong signature"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state = None

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="text/xml"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        if self.path == "/latest/api/token" and "X-aws-ec2-metadata-token-ttl-seconds" in self.headers:
            return self.answer(200, METADATA_TOKEN.encode())
        return self.answer(404, b"")

    def do_GET(self):
        state = self.state
        if self.path == "/_/calls":
            with state.lock:
                return self.answer(200, json.dumps(state.calls).encode())
        if self.path.startswith("/latest/"):
            if self.headers.get("X-aws-ec2-metadata-token") != METADATA_TOKEN:
                return self.answer(401, b"")
            listing = "/latest/meta-data/iam/security-credentials/"
            if self.path == listing:
                return self.answer(200, ROLE.encode())
            if self.path == listing + ROLE:
                return self.answer(200, json.dumps({
                    "Code": "Success", "AccessKeyId": "ASIASERVED", "SecretAccessKey": SECRETS["ASIASERVED"],
                    "Token": TOKENS["ASIASERVED"], "Expiration": "2099-01-01T00:00:00Z"}).encode())
        return self.answer(404, b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        state = self.state
        if self.path == "/_/faults":
            with state.lock:
                state.faults = json.loads(body)
            return self.answer(200, b"")
        if self.path == "/_/reset":
            with state.lock:
                state.clear()
            empty_account()
            state.addresses.forget_owners()
            return self.answer(200, b"")
        if self.path == "/_/addresses":
            state.addresses.set(json.loads(body))
            return self.answer(200, b"")
        if self.path == "/_/boto":
            names = dict(state.clients)
            exec(body.decode(), names)  # pylint: disable=exec-used
            return self.answer(200, json.dumps(names["result"], default=str).encode())
        fields = dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True))
        action = fields.get("Action") or self.headers.get("X-Amz-Target", "").rpartition(".")[2]
        with state.lock:
            state.calls.append({"action": action, "fields": fields})
            waiting = state.faults.get(action, [])
            fault = waiting.pop(0) if waiting else {}
        wrong = signature_fault("POST", self.headers["Host"], self.path, self.headers, body)
        if wrong is not None:
            return self.answer(403, ec2_error("SignatureDoesNotMatch", wrong))
        if "code" in fault:
            return self.answer(fault["status"], ec2_error(fault["code"], fault["message"]))
        if "body" in fault:
            return self.answer(fault["status"], fault["body"].encode())
        status, reply, kind = self.launch_once(fields, body)
        if fault.get("is_lost"):
            self.close_connection = True
            return None
        return self.answer(status, reply, kind)

    def launch_once(self, fields, body):
        """A token that AWS knows makes nothing, and is refused with other parameters."""
        token = fields.get("ClientToken")
        with self.state.lock:
            known = self.state.launched.get(token)
        if token is None or known is None:
            answer = self.to_moto(self.path, body, self.headers)
            if token is not None and answer[0] == 200:
                with self.state.lock:
                    self.state.launched[token] = (fields, answer)
            return answer
        if known[0] != fields:
            return 400, ec2_error("IdempotentParameterMismatch", "other parameters"), "text/xml"
        made = re.findall(r"<instanceId>(i-[0-9a-f]+)</instanceId>", known[1][1].decode())
        found = self.state.clients["ec2"].describe_instances(InstanceIds=made)["Reservations"]
        if all(each["State"]["Name"] == "terminated" for group in found for each in group["Instances"]):
            return 400, ec2_error("IdempotentInstanceTerminated", "terminated since"), "text/xml"
        return known[1]

    def to_moto(self, path, body, headers):
        moto = http.client.HTTPConnection(*self.state.moto)
        moto.request("POST", path, body, {name: value for name, value in headers.items() if name != "Connection"})
        reply = moto.getresponse()
        return reply.status, reply.read(), reply.getheader("Content-Type", "text/xml")


def main():
    address, authorized_keys = (sys.argv[1:] + ["127.0.0.1", None][len(sys.argv) - 1:])[:2]
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    Handler.state = State(moto.get_host_and_port(), authorized_keys)
    server = http.server.ThreadingHTTPServer((address, 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://{address}:{server.server_port}", flush=True)
    sys.stdin.read()
    server.shutdown()
    moto.stop()


if __name__ == "__main__":
    main()
