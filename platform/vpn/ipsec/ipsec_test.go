package ipsec

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/netinst/netstate"
)

func sample() netstate.VPN {
	return netstate.VPN{
		Name: "ni/3/vpn", Link: "evpn3", MTU: 1400, Mark: 0xe50003, Generation: 7,
		IPsec: &netstate.IPsec{
			Local:   netstate.IPsecEnd{ID: "node.example", Auth: "psk", Secret: "s3cret"},
			Remote:  netstate.IPsecEnd{ID: "peer.example", Auth: "psk", Secret: "0ther"},
			Address: "192.0.2.9", Port: 1500, ESP: "aes256gcm16, aes128gcm16", Policies: true, DPD: 30, RekeyChild: 600,
			Children: []netstate.IPsecChild{{
				Name: "lan", Local: []netip.Prefix{netip.MustParsePrefix("10.1.0.7/24")},
				Remote: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/24"), netip.MustParsePrefix("fd00:2::/64")},
			}},
		},
	}
}

func TestAConnectionHasNoSecret(t *testing.T) {
	v := sample()
	conn := connOf(v, byProcess)
	text, err := json.Marshal(record{Conn: conn, Peer: peerOf(v.IPsec), Config: configText("/run/x", v.Mark, byProcess, ports{1, 2})})
	if err != nil || strings.Contains(string(text), "s3cret") || strings.Contains(string(text), "0ther") {
		t.Errorf("%v: %s", err, text)
	}
	all, err := secretsOf(v.IPsec)
	if err != nil || len(all) != 2 || all[0].args["data"] != "s3cret" || all[1].args["data"] != "0ther" {
		t.Errorf("secrets: %v, %d of them", err, len(all))
	}
}

func TestAConnectionSaysWhatIsConfigured(t *testing.T) {
	text, err := json.Marshal(connOf(sample(), byKernel))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"children":{"lan":{"close_action":"start","dpd_action":"restart","esp_proposals":["aes256gcm16","aes128gcm16"],` +
		`"if_id_in":"15007747","if_id_out":"15007747","life_time":"660s","local_ts":["10.1.0.0/24"],"mode":"tunnel",` +
		`"rand_time":"60s","rekey_time":"600s","remote_ts":["10.2.0.0/24","fd00:2::/64"],"set_mark_out":"0xe50003",` +
		`"start_action":"none"}},"dpd_delay":"30s","keyingtries":"0","local":{"auth":"psk","id":"node.example"},` +
		`"mobike":"yes","proposals":["default"],"reauth_time":"0s","remote":{"auth":"psk","id":"peer.example"},` +
		`"remote_port":"1500","send_cert":"always","unique":"replace","version":"2"}`
	if string(text) != want {
		t.Errorf("connection\n%s\nwant\n%s", text, want)
	}
}

func TestSelectorsWithoutPrefixes(t *testing.T) {
	for _, c := range []struct {
		policies, virtual bool
		local, remote     string
	}{
		{false, false, "0.0.0.0/0 ::/0", "0.0.0.0/0 ::/0"}, {true, false, "dynamic", "dynamic"},
		{false, true, "dynamic", "0.0.0.0/0 ::/0"}, {true, true, "dynamic", "dynamic"},
	} {
		v := sample()
		v.IPsec.Policies, v.IPsec.VirtualIP, v.IPsec.Children = c.policies, c.virtual, nil
		child := connOf(v, byProcess)["children"].(map[string]any)[connName].(map[string]any)
		local, remote := strings.Join(child["local_ts"].([]string), " "), strings.Join(child["remote_ts"].([]string), " ")
		if local != c.local || remote != c.remote {
			t.Errorf("policies %v, virtual IP %v: %s to %s, want %s to %s", c.policies, c.virtual, local, remote, c.local, c.remote)
		}
	}
}

func TestOtherCertificatesAreNoOtherConnection(t *testing.T) {
	a, b := sample(), sample()
	for _, v := range []*netstate.VPN{&a, &b} {
		v.IPsec.Local.Auth, v.IPsec.Remote.Auth = "pubkey", "pubkey"
	}
	a.IPsec.Local.Certificate, b.IPsec.Local.Certificate, b.IPsec.Remote.CA = "one", "two", "three"
	x, y := connOf(a, byProcess), connOf(b, byProcess)
	same := func(f func(map[string]any) map[string]any) bool {
		p, _ := json.Marshal(f(x))
		q, _ := json.Marshal(f(y))
		return string(p) == string(q)
	}
	if same(normal) || !same(withoutCerts) {
		t.Errorf("compared with certificates: %v; without: %v", same(normal), same(withoutCerts))
	}
}

// The lines are those of strongSwan 5.9.8.
func TestWordsOfTheLog(t *testing.T) {
	const begin = "1795667533 14[IKE] initiating IKE_SA net[1] to 192.0.2.9"
	for want, lines := range map[string][]string{
		"no proposal chosen: the peer vpn accepts none of the IKE proposals": {
			"1 14[IKE] received NO_PROPOSAL_CHOSEN notify error"},
		"no proposal chosen: the peer vpn accepts none of the ESP proposals": {
			"1 01[IKE] IKE_SA net[1] established between 198.18.1.2[a]...198.18.0.9[b]",
			"1 01[IKE] received NO_PROPOSAL_CHOSEN notify, no CHILD_SA built",
			"1 01[IKE] failed to establish CHILD_SA, keeping IKE_SA"},
		"the peer vpn refuses the traffic selectors: its subnets must match those of the children": {
			"1 01[IKE] received TS_UNACCEPTABLE notify, no CHILD_SA built"},
		`wrong pre-shared key or identity: the peer vpn refuses the authentication of this node (here "a", there "b")`: {
			"1 01[IKE] received AUTHENTICATION_FAILED notify error"},
		"wrong pre-shared key: that of the peer vpn is another": {
			"1 01[IKE] tried 1 shared key for 'a' - 'b', but MAC mismatched",
			"1 01[IKE] received AUTHENTICATION_FAILED notify error"},
		"the certificate of the peer vpn has expired on 2026-10-26": {
			"1 01[CFG] subject certificate invalid (valid from Sep 26 04:00:00 2026 to Oct 26 04:00:00 2026)",
			"1 01[IKE] no trusted ECDSA public key found for 'b'"},
		`identity mismatch: the peer vpn says that it is "c", not "b"`: {"1 01[IKE] IDir 'c' does not match to 'b'"},
		`identity mismatch: the peer vpn does not prove to be "b"`: {
			"1 01[CFG] constraint check failed: identity 'b' required "},
		"the peer vpn does not answer": {"1 01[IKE] retransmit 1 of request with message ID 0"},
		"EAP authentication failed: the peer vpn refuses the user name or password": {
			"1 01[IKE] received EAP_FAILURE, EAP authentication failed"},
		"the peer vpn has no virtual IP address to assign": {"1 01[IKE] received INTERNAL_ADDRESS_FAILURE notify, no CHILD_SA built"},
		"": {"1 01[IKE] received AUTHENTICATION_FAILED notify error",
			"1 01[IKE] CHILD_SA lan{1} established with SPIs d8e0833b_i 0bbbd4d6_o and TS 10.1.3.0/24 === 10.2.0.0/24"},
	} {
		w := words{peer: peer{Address: "vpn", LocalID: "a", RemoteID: "b", Auth: "psk"}}
		for _, line := range append([]string{begin}, lines...) {
			w.hear(line)
		}
		if w.said != want {
			t.Errorf("said %q, want %q", w.said, want)
		}
	}
	// A cause stays until the next try has another one, also one that is less exact.
	w := words{peer: peer{Address: "vpn", Auth: "psk"}}
	w.hear("1 01[IKE] tried 1 shared key for 'a' - 'b', but MAC mismatched")
	w.hear(begin)
	if !strings.HasPrefix(w.said, "wrong") {
		t.Errorf("forgotten: %q", w.said)
	}
	w.hear("1 14[IKE] received NO_PROPOSAL_CHOSEN notify error")
	if !strings.HasPrefix(w.said, "no proposal") {
		t.Errorf("said %q", w.said)
	}
}

func TestTheLogIsReadOnceAndBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := logReader{path: path}
	add := func(text string) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		l.read()
	}
	l.read() // there is none yet
	add("1 01[IKE] IKE_SA net[2] rekeyed betw")
	add("een a and b\n1 01[IKE] outbound CHILD_SA lan{2} established with SPIs 1_i 2_o\n")
	if l.words.rekeys != 2 {
		t.Errorf("%d rekeys", l.words.rekeys)
	}
	add(strings.Repeat("1 01[NET] a line\n", logMax/16))
	if st, err := os.Stat(path); err != nil || st.Size() != 0 {
		t.Errorf("a log that is too large is not cut: %v %v", st, err)
	}
	add("1 01[IKE] IKE_SA net[2] rekeyed between a and b\n")
	if l.words.rekeys != 3 {
		t.Errorf("%d rekeys after the log was cut", l.words.rekeys)
	}
}

func TestOctetsOfEndedChildrenCountOn(t *testing.T) {
	c := totals{}
	for i := range 1000 {
		c[strconv.Itoa(i)] = [2]uint64{2, 3}
		if in, out := c.sums(); in != uint64(2*(i+1)) || out != uint64(3*(i+1)) {
			t.Fatalf("after %d children: %d, %d", i+1, in, out)
		}
	}
	if len(c) > 300 {
		t.Errorf("%d children are kept", len(c))
	}
}

// A tunnel that listens keeps the octets of a bounded number of peers, and of all that are connected.
func TestOctetsOfOnlySoManyPeersAreKept(t *testing.T) {
	k := keeper{totals: map[string]totals{}, t: &Tunnels{dir: t.TempDir()}}
	var all []sa
	for i := range 2 * maxTotals {
		all = append(all, sa{who: strconv.Itoa(i)})
	}
	for i := range all {
		if k.publish([]sa{all[0], all[i]}, ""); len(k.totals) > maxTotals || k.totals["0"] == nil {
			t.Fatalf("%d peers, the one that stays has %v", len(k.totals), k.totals["0"])
		}
	}
	k.publish(all, "")
	if k.publish(nil, "charon does not answer"); len(k.totals) != len(all) {
		t.Errorf("%d of %d connected peers are left once charon did not answer", len(k.totals), len(all))
	}
}

func TestAChainIsLoadedWhole(t *testing.T) {
	block := func(name string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(name)}))
	}
	v := sample()
	v.IPsec.Local = netstate.IPsecEnd{Auth: "pubkey", Certificate: block("node") + block("issuer"), Key: block("key")}
	v.IPsec.Remote = netstate.IPsecEnd{Auth: "pubkey", CA: block("one") + block("two")}
	conn := connOf(v, byProcess)
	certs, cas := conn["local"].(map[string]any)["certs"], conn["remote"].(map[string]any)["cacerts"]
	if got := certs.([]string); len(got) != 1 || got[0] != block("node") {
		t.Errorf("certificate of this node: %q", got)
	}
	if got := cas.([]string); len(got) != 2 || got[1] != block("two") {
		t.Errorf("CAs of the peer: %q", got)
	}
	all, err := secretsOf(v.IPsec)
	if err != nil || len(all) != 5 { // key, certificate, issuer, two CAs
		t.Errorf("%d requests, %v", len(all), err)
	}
	v.IPsec.Remote.CA = filepath.Join(t.TempDir(), "missing.pem")
	if _, err := secretsOf(v.IPsec); err == nil || !strings.Contains(err.Error(), "CA of the peer") {
		t.Errorf("a file that is missing: %v", err)
	}
}

func TestAnAddressNeedsNoResolver(t *testing.T) {
	x := New(nil, "", t.TempDir(), "")
	for in, want := range map[string]string{"192.0.2.9": "[192.0.2.9]", "::ffff:192.0.2.9": "[192.0.2.9]", "": "[]"} {
		if got, err := x.lookUp(t.Context(), in); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v, want %s", in, got, err, want)
		}
	}
}

// The log has what peers send: whatever it is, there is at most one sentence on one line.
func FuzzWordsOfTheLog(f *testing.F) {
	f.Add("1 01[IKE] IDir 'c' does not match to 'b'")
	f.Add("1 01[KNL] error installing route with policy 10.1.0.0/24 === 10.2.0.0/24 out")
	f.Add("1 01[CFG] subject certificate invalid (valid from x to y)")
	f.Add("1 01[CFG] <net|1> subject certificate invalid (valid from x to y)")
	f.Add("1 01[NET] <1> received packet: from 192.0.2.7[500] to")
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "\n") {
			t.Skip("a line has one")
		}
		w := words{peer: peer{Address: "vpn", Auth: "psk"}}
		w.callers.left = callerLines
		w.hear("1 01[NET] <1> received packet: from 192.0.2.7[500] to 192.0.2.1[500] (1 bytes)")
		w.hear(line)
		if strings.Contains(w.sentence(time.Now(), false), "\n") || w.lacks.IsValid() && within(w.lacks) == (netip.Addr{}) {
			t.Errorf("%q: said %q, lacks %v", line, w.said, w.lacks)
		}
	})
}

// A charon may be hostile: what it leaves in its folder leads to no other file, and holds up nothing.
func TestWhatACharonLeavesIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("root's own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own")
	for name, leave := range map[string]func(path string) error{
		"a link":   func(path string) error { return os.Symlink(secret, path) },
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		if err := makeOwn(own, nil); err != nil {
			t.Fatal(err)
		}
		log := filepath.Join(dir, logFile)
		if err := errors.Join(os.Remove(log), leave(log), leave(filepath.Join(dir, dnsFile))); err != nil {
			t.Fatal(err)
		}
		if r := (logReader{path: log, at: logMax}); r.read() {
			t.Errorf("%s is read as a log", name)
		}
		if got := assignedDNS(filepath.Join(dir, dnsFile)); got != nil {
			t.Errorf("%s is a list of servers: %v", name, got)
		}
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "root's own\n" {
		t.Errorf("the file of another is %q, %v", text, err)
	}
}
