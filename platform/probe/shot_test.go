package probe

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"

	"edgespan/netinst/probe"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

func TestAShotThatCannotBeShotSaysWhy(t *testing.T) {
	for want, id := range map[string]probe.ID{
		`invalid method "carrier pigeon"`:                      {Method: "carrier pigeon"},
		`invalid target "fe80::1": must be an IPv4 address`:    {Method: probe.ARP, Target: "fe80::1"},
		`invalid target "192.0.2.1": must be an IPv6 address`:  {Method: probe.ND, Target: "192.0.2.1"},
		`invalid target "fe80::1%lo": must be an IPv6 address`: {Method: probe.ND, Target: "fe80::1%lo"},
		`invalid target "gateway": must be an IPv4 address`:    {Method: probe.ARP, Target: "gateway"},
		`invalid target "192.0.2.1": must be host:port`:        {Method: probe.TCP, Target: "192.0.2.1"},
		`invalid port "65536": must be 1 to 65535`:             {Method: probe.TCP, Target: "192.0.2.1:65536"},
		`invalid target "ns.example.org": must be an address`:  {Method: probe.DNS, Target: "ns.example.org"},
		"no DNS server for example.org":                        {Method: probe.ICMP, Target: "example.org"},
		`invalid host "": must be an address or a name`:        {Method: probe.ICMP},
		`invalid host "a..b": must be an address or a name`:    {Method: probe.TCP, Target: "a..b:80"},
		"invalid target: must be a URL such as http://HOST/PATH or https://HOST/PATH": {
			Method: probe.HTTP, Target: "ftp://probe:password@example.org/"},
	} {
		if _, _, err := Shoot(t.Context(), "", id); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", id, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Shoot(ctx, "", probe.ID{Method: probe.ICMP, Target: "192.0.2.1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: %v", err)
	}
}

func TestAddressesThatAreNoOtherHosts(t *testing.T) {
	for _, a := range []string{"0.0.0.0", "127.0.0.1", "127.0.0.53", "224.0.0.1", "255.255.255.255", "::", "::1",
		"ff02::1"} {
		if otherHost(netip.MustParseAddr(a)) == nil {
			t.Errorf("%s is another host", a)
		}
	}
	for _, a := range []string{"192.0.2.1", "169.254.1.1", "2001:db8::1", "fe80::1"} {
		if err := otherHost(netip.MustParseAddr(a)); err != nil {
			t.Error(err)
		}
	}
}

func TestAnARPReplyMatchesInEachField(t *testing.T) {
	mac := [6]byte{2, 0, 0, 0, 0, 7}
	local, remote := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.1")
	good := append([]byte("\x00\x01\x08\x00\x06\x04\x00\x02\x02\x00\x00\x00\x00\x01"), remote.AsSlice()...)
	good = append(append(good, mac[:]...), local.AsSlice()...)
	if !isReply(good, mac, local, remote) || !isReply(append(good, make([]byte, 18)...), mac, local, remote) {
		t.Error("the reply, alone or padded, is none")
	}
	for i := range good {
		changed := append([]byte(nil), good...)
		changed[i]++
		if sender := i >= arpSenderMAC && i < arpSenderIP; isReply(changed, mac, local, remote) != sender {
			t.Errorf("with byte %d changed: %v, want %v", i, !sender, sender)
		}
		if isReply(good[:i], mac, local, remote) {
			t.Errorf("the first %d bytes are a reply", i)
		}
	}
}

func TestAnEchoReplyMatchesInEachByte(t *testing.T) {
	for _, ipv4 := range []bool{true, false} {
		asked, err := newEcho(ipv4)
		if err != nil {
			t.Fatal(err)
		}
		good := append([]byte(nil), asked...)
		good[0] = asked.reply()
		if !asked.answeredBy(good) || asked.answeredBy(asked) || asked.answeredBy(good[:len(good)-1]) {
			t.Error("the reply is none, or the request or a part of the reply is one")
		}
		for i := range good {
			changed := append([]byte(nil), good...)
			changed[i]++
			if sum := i == 2 || i == 3; asked.answeredBy(changed) != sum {
				t.Errorf("with byte %d changed: %v", i, !sum)
			}
		}
	}
	options := append([]byte{0x46, 0, 0, 0}, make([]byte, 20)...) // an IP header of 24 bytes
	for got, want := range map[string]string{
		string(withoutIP(append(options, "icmp"...), true)): "icmp",
		string(withoutIP([]byte{0x4f, 1}, true)):            "",
		string(withoutIP(nil, true)):                        "",
		string(withoutIP([]byte("icmp6"), false)):           "icmp6",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAnAnswerOfDNSMatchesItsQuestion(t *testing.T) {
	q := new(dns.Msg).SetQuestion("Example.org.", dns.TypeA)
	reply := func(change func(*dns.Msg)) []byte {
		m := new(dns.Msg).SetReply(q)
		change(m)
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, b := range map[string][]byte{
		"the same":                             reply(func(*dns.Msg) {}),
		"another case, as some servers answer": reply(func(m *dns.Msg) { m.Question[0].Name = "example.ORG." }),
		"no such name":                         reply(func(m *dns.Msg) { m.Rcode = dns.RcodeNameError }),
	} {
		if answerTo(q, b) == nil {
			t.Errorf("%s: no answer", name)
		}
	}
	for name, b := range map[string][]byte{
		"nothing":          {},
		"garbage":          []byte(strings.Repeat("\xc0\x0c", 500)),
		"another id":       reply(func(m *dns.Msg) { m.Id++ }),
		"a question":       reply(func(m *dns.Msg) { m.Response = false }),
		"an update":        reply(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }),
		"no question":      reply(func(m *dns.Msg) { m.Question = nil }),
		"two questions":    reply(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
		"of another name":  reply(func(m *dns.Msg) { m.Question[0].Name = "example.net." }),
		"of another type":  reply(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeNS }),
		"of another class": reply(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }),
	} {
		if answerTo(q, b) != nil {
			t.Errorf("%s: an answer", name)
		}
	}
	if f := idFilter(0x1234); f[1].K != 0x1234 || binary.BigEndian.Uint16([]byte{0x12, 0x34}) != 0x1234 {
		t.Errorf("filter of id %#x", f[1].K)
	}
}

func TestTheStatusOfAnHTTPAnswer(t *testing.T) {
	u := &url.URL{Scheme: "http", Host: "www.example.org", Path: "/", User: url.UserPassword("probe", "pw")}
	for answer, want := range map[string]struct {
		status   int
		location string
	}{
		"HTTP/1.1 200 OK\r\n": {status: 200},
		"HTTP/1.0 204\n":      {status: 204},
		"HTTP/1.1 404 Not Found\r\nLocation: /x\r\n\r\n":                                            {status: 404},
		"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\n":                                  {status: 200},
		"HTTP/1.1 302 Found\r\nlocation:  http://a/ \r\n\r\n":                                       {302, "http://a/"},
		"HTTP/1.1 301 Moved\r\n\r\nLocation: http://a/\r\n\r\n":                                     {status: 301},
		"HTTP/1.1 302 Found\r\n" + strings.Repeat("X: y\r\n", 1000) + "Location: http://a/\r\n\r\n": {status: 302},
		"HTTP/1.1 100 Continue\r\n\r\n":                                                             {},
		"HTTP/1.1 101 Switching Protocols\r\n\r\n":                                                  {},
		"HTTP/1.1 099 Low\r\n\r\n":                                                                  {},
		"HTTP/1.1 0200 OK\r\n\r\n":                                                                  {},
		"HTTP/1.1 -20 OK\r\n\r\n":                                                                   {},
		"HTTP/1.1\r\n\r\n":                                                                          {},
		"HTTX/1.1 200 OK\r\n\r\n":                                                                   {},
		"SSH-2.0-OpenSSH_9.9\r\n":                                                                   {},
		"HTTP/1.1 200 " + strings.Repeat("x", 1<<16):                                                {},
		"": {},
	} {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			r, err := http.ReadRequest(bufio.NewReader(server))
			if err != nil {
				t.Error(err)
				return
			}
			if name, password, ok := r.BasicAuth(); !ok || name != "probe" || password != "pw" || !r.Close ||
				r.Host != "www.example.org" || r.ContentLength != 0 {
				t.Errorf("request %v", r)
			}
			_, _ = io.WriteString(server, answer)
		}()
		status, location, _, err := get(client, u)
		client.Close()
		if (err == nil) != (want.status > 0) || err == nil && (status != want.status || location != want.location) {
			t.Errorf("%.60q: %d %q %v, want %d %q", answer, status, location, err, want.status, want.location)
		}
	}
}

func TestTheHostOfARedirection(t *testing.T) {
	from := &url.URL{Scheme: "http", Host: "www.example.org:81", Path: "/a"}
	for location, want := range map[string]string{
		"https://login.example.net:8443/?x":  "login.example.net",
		"https://[2001:db8::1]/":             "2001:db8::1",
		"/b":                                 "www.example.org",
		"":                                   "www.example.org",
		"http://a%0ab/":                      "another page",
		"http://<b>bold</b>/":                "another page",
		"http://" + strings.Repeat("a", 254): "another page",
		"mailto:me@example.org":              "another page",
		"http://%zz/":                        "another page",
	} {
		if got := hostOf(location, from); got != want {
			t.Errorf("%q: %q, want %q", location, got, want)
		}
	}
}

func TestAnAdvertisementMatchesInEachField(t *testing.T) {
	remote := netip.MustParseAddr("fe80::1")
	good := append([]byte{ndAdvert, 0, 0xab, 0xcd, ndSolicited, 0, 0, 0}, remote.AsSlice()...)
	if !isAdvert(good, remote) || !isAdvert(append(good, 2, 1, 2, 0, 0, 0, 0, 1), remote) {
		t.Error("the answer, alone or with an option, is none")
	}
	for i := range good {
		changed := append([]byte(nil), good...)
		changed[i] ^= 0x41
		ignored := i == 2 || i == 3 || i > ndFlags && i < ndTarget // checksum, reserved
		if isAdvert(changed, remote) != ignored {
			t.Errorf("with byte %d changed: %v, want %v", i, !ignored, ignored)
		}
		if isAdvert(good[:i], remote) {
			t.Errorf("the first %d bytes are an answer", i)
		}
	}
}

// What arrives between the opening of a socket and its filter is not taken for an answer, nor for bytes of the port.
func TestAFilterDropsWhatCameBeforeIt(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	from, to := os.NewFile(uintptr(fds[0]), "from"), os.NewFile(uintptr(fds[1]), "to")
	defer func() { _, _ = from.Close(), to.Close() }()
	send := func(text string) {
		if _, err := from.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	send("early")
	send("as early")
	if err := filter(to, []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 256}}); err != nil {
		t.Fatal(err)
	}
	send("answer")
	got := make([]byte, 16)
	if n, err := to.Read(got); err != nil || string(got[:n]) != "answer" {
		t.Errorf("%q, %v, want the answer", got[:n], err)
	}
}
