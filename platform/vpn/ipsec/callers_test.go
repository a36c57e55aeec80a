package ipsec

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

const callTime = 1795767858

// callAt is the log of strongSwan 5.9.8 about a call, to which lines are added, with the number of the IKE_SA as %d and
// the address of the caller as FROM.
func callAt(number int, from string, lines ...string) []string {
	out := []string{
		"16[NET] <%d> received packet: from FROM[500] to 198.18.1.2[500] (1000 bytes)",
		"16[ENC] <%d> parsed IKE_SA_INIT request 0 [ SA KE No N(NATD_S_IP) N(NATD_D_IP) N(FRAG_SUP) ]",
		"16[IKE] <%d> FROM is initiating an IKE_SA",
	}
	out = append(out, lines...)
	for i, line := range out {
		out[i] = fmt.Sprintf("%d ", callTime) + strings.NewReplacer("%d", fmt.Sprint(number), "FROM", from).Replace(line)
	}
	return out
}

var (
	wrongKey = []string{
		"16[NET] <%d> received packet: from FROM[4500] to 198.18.1.2[4500] (400 bytes)",
		"16[ENC] <%d> parsed IKE_AUTH request 1 [ IDi N(INIT_CONTACT) IDr AUTH SA TSi TSr N(MOBIKE_SUP) ]",
		"16[CFG] <%d> looking for peer configs matching 198.18.1.2[node.example]...198.18.0.9[peer.example]",
		"16[CFG] <net|%d> selected peer config 'net'",
		"16[IKE] <net|%d> tried 1 shared key for 'node.example' - 'peer.example', but MAC mismatched",
		"16[IKE] <net|%d> peer supports MOBIKE",
	}
	noProposal = []string{"09[IKE] <%d> remote host is behind NAT", "09[IKE] <%d> received proposals unacceptable"}
	agreed     = []string{
		"06[IKE] <net|%d> authentication of 'peer.example' with pre-shared key successful",
		"06[IKE] <net|%d> IKE_SA net[%d] established between 198.18.1.2[node.example]...198.18.0.9[peer.example]",
	}
)

// listener are the words of a tunnel that listens. address is the configured one of its peer.
func listener(address string) *words {
	w := &words{peer: peer{Address: address, LocalID: "node.example", RemoteID: "peer.example", Auth: "psk"}}
	if a, err := netip.ParseAddr(address); err == nil {
		w.callers.peers = []netip.Addr{a}
	}
	return w
}

func hearAll(w *words, lines []string) {
	w.callers.left = callerLines
	for _, line := range lines {
		w.hear(line)
	}
}

func atCall(after time.Duration) time.Time { return time.Unix(callTime, 0).Add(after) }

func TestWordsAboutACaller(t *testing.T) {
	for want, lines := range map[string][]string{
		"wrong pre-shared key: that of the peer %s is another":                          wrongKey,
		"no proposal chosen: none of the IKE proposals of the peer %s is accepted here": noProposal,
		"identity mismatch: a peer calls whose identity is not peer.example": {
			"13[CFG] <%d> looking for peer configs matching 198.18.1.2[node.example]...198.18.0.9[other.example]",
			"13[CFG] <%d> no matching peer config found"},
		"the certificate of the peer %s has expired on 2026-10-27": {
			"12[CFG] <net|%d>   using certificate \"CN=peer.example\"",
			"12[CFG] <net|%d> subject certificate invalid (valid from Sep 27 08:24:24 2026 to Oct 27 08:24:24 2026)",
			"12[IKE] <net|%d> no trusted ECDSA public key found for 'peer.example'"},
		`the certificate of the peer %s is not trusted: no certificate of its CA "CN=CA of the test"`: {
			"10[CFG] <net|%d> no issuer certificate found for \"CN=peer.example\"",
			"10[CFG] <net|%d>   issuer is \"CN=CA of the test\"",
			"10[IKE] <net|%d> no trusted ECDSA public key found for 'peer.example'"},
		"": {"11[IKE] <%d> no IKE config found for 198.18.1.2...198.18.0.9, sending NO_PROPOSAL_CHOSEN"},
	} {
		for address, name := range map[string]string{"198.18.0.9": "198.18.0.9", "": "peer.example"} {
			w := listener(address)
			hearAll(w, callAt(1, "198.18.0.9", lines...))
			want := strings.ReplaceAll(want, "%s", name)
			if want != "" && address == "" {
				want += " (a call from 198.18.0.9)"
			}
			if got := w.sentence(atCall(0), false); got != want || w.said != "" {
				t.Errorf("peer %q: %q, and of the tunnel itself %q; want %q", address, got, w.said, want)
			}
			if got := w.sentence(atCall(0), true); got != "" {
				t.Errorf("the tunnel works, and %q", got)
			}
			if got := w.sentence(atCall(0), false); got != "" {
				t.Errorf("what was heard before the tunnel worked is said: %q", got)
			}
		}
	}
}

// With a configured address, no one else is heard; while its name has no address yet, none is.
func TestStrangersAreNotThePeer(t *testing.T) {
	for address, from := range map[string]string{"198.18.0.9": "203.0.113.5", "vpn.example": "198.18.0.9"} {
		w := listener(address)
		hearAll(w, callAt(1, from, wrongKey...))
		if got := w.sentence(atCall(0), false); got != "" {
			t.Errorf("a call from %s to one whose peer is %s: %q", from, address, got)
		}
	}
	w := listener("vpn.example")
	hearAll(w, callAt(1, "198.18.0.9", wrongKey...))
	w.callers.peers = []netip.Addr{netip.MustParseAddr("198.18.0.9")} // read before the name was resolved
	if got := w.sentence(atCall(0), false); got == "" {
		t.Error("the peer is not heard")
	}
}

// What the tunnel itself knows is said first, and no caller changes it.
func TestCallersLeaveTheTunnelsOwnCause(t *testing.T) {
	begin := "1 14[IKE] <net|1> initiating IKE_SA net[1] to 198.18.0.9"
	w := listener("198.18.0.9")
	hearAll(w, []string{begin, "1 01[IKE] <net|1> received AUTHENTICATION_FAILED notify error"})
	own := w.sentence(atCall(0), false)
	rank := w.rank
	for n, from := range []string{"203.0.113.5", "198.18.0.9"} {
		if got := w.sentence(atCall(0), false); own == "" || got != own {
			t.Errorf("%q; before the calls %q", got, own)
		}
		hearAll(w, callAt(2+n, from, wrongKey...))
	}
	if got := w.sentence(atCall(0), false); !strings.HasPrefix(got, own+"; when it calls: wrong") || w.rank != rank {
		t.Errorf("%q of rank %d; before the calls %q of %d", got, w.rank, own, rank)
	}
	w = listener("198.18.0.9")
	hearAll(w, []string{begin, "1 14[IKE] <net|1> retransmit 1 of request with message ID 0"})
	const silent = "the peer 198.18.0.9 does not answer"
	hearAll(w, callAt(2, "203.0.113.5", wrongKey...))
	if got := w.sentence(atCall(0), false); got != silent {
		t.Errorf("after the call of a stranger: %q", got)
	}
	hearAll(w, callAt(3, "198.18.0.9", wrongKey...))
	if got := w.sentence(atCall(0), false); got != silent+"; when it calls: wrong pre-shared key: that of the peer 198.18.0.9 is another" {
		t.Errorf("after its call: %q", got)
	}
	hearAll(w, []string{"1 14[ENC] <net|1> parsed IKE_SA_INIT response 0 [ SA KE No ]"})
	if got := w.sentence(atCall(0), false); !strings.HasPrefix(got, "wrong pre-shared key") {
		t.Errorf("after its answer: %q", got)
	}
}

// An IKE_SA that is established is the peer's, whoever has begun it: what it lacks stays, also after it was rekeyed,
// and also if another daemon has read how it began.
func TestAnEstablishedCallerIsThePeer(t *testing.T) {
	const want = "no proposal chosen: none of the ESP proposals of the peer peer.example is accepted here"
	lacks := "13[IKE] <net|%d> no acceptable proposal found"
	stranger := callAt(2, "203.0.113.5", wrongKey...)
	w := listener("")
	hearAll(w, callAt(1, "198.18.0.9", append(slices.Clone(agreed), lacks)...))
	hearAll(w, stranger)
	if got := w.sentence(atCall(0), false); !strings.HasPrefix(got, want) || w.said != want {
		t.Errorf("said %q", got)
	}
	hearAll(w, callAt(3, "198.18.0.9", append(slices.Clone(agreed),
		"06[IKE] <net|%d> CHILD_SA lan{1} established with SPIs 1_i 2_o and TS 10.1.0.0/24 === 10.2.0.0/24",
		"06[IKE] <net|%d> IKE_SA net[4] rekeyed between 198.18.1.2[node.example]...198.18.0.9[peer.example]",
		"06[IKE] <net|4> traffic selectors 10.1.0.0/24 === 10.77.0.0/24 unacceptable")...))
	if got := w.sentence(atCall(0), false); !strings.Contains(got, "traffic selectors") {
		t.Errorf("of a rekeyed one: %q", got)
	}
	w = listener("")
	w.keepOwn([]sa{{id: "1", state: "ESTABLISHED"}, {id: "2", state: "CONNECTING"}, {id: "3", state: "CONNECTING", initiator: true}})
	hearAll(w, []string{"1 " + strings.ReplaceAll(lacks, "%d", "1")})
	hearAll(w, stranger)
	if got := w.sentence(atCall(0), false); !strings.HasPrefix(got, want) || w.isOwn(2) || !w.isOwn(3) {
		t.Errorf("after another daemon: %q, own %v", got, w.own)
	}
}

// A stranger has as many calls as it likes, and writes what it likes into them.
func TestCallersAreBounded(t *testing.T) {
	w := listener("")
	hearAll(w, callAt(1, "198.18.0.9", wrongKey...))
	for i := range 20 * callersMax {
		from := netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}).String()
		hearAll(w, callAt(2+i, from, noProposal...))
		hearAll(w, callAt(2+i, from, "1 01[IKE] <%d> something else"))
	}
	if n := len(w.callers.all); n > callersMax {
		t.Errorf("%d callers are kept", n)
	}
	// One that was forgotten is no part of the tunnel, and a less exact cause hides no other.
	hearAll(w, []string{"1 16[IKE] <net|2> tried 1 shared key for 'a' - 'b', but MAC mismatched"})
	if got := w.sentence(atCall(0), false); w.said != "" || !strings.Contains(got, "(a call from 198.18.0.9)") {
		t.Errorf("%q, and of the tunnel itself %q", got, w.said)
	}
	// Beyond a number of lines, no cause is looked for.
	w = listener("")
	hearAll(w, slices.Repeat(callAt(1, "203.0.113.5", "09[IKE] <%d> something else"), callerLines))
	w.hear(fmt.Sprintf("%d 16[IKE] <1> received proposals unacceptable", callTime))
	if got := w.sentence(atCall(0), false); got != "" {
		t.Errorf("after too many lines: %q", got)
	}
	long := strings.Repeat("é", 4000)
	hearAll(w, callAt(7, "203.0.113.5", `10[CFG] <net|%d>   issuer is "`+long+`"`))
	if got := w.sentence(atCall(0), false); len(got) > callerWords+100 || !strings.HasSuffix(got, "…") &&
		!strings.HasSuffix(got, "(a call from 203.0.113.5)") {
		t.Errorf("%d octets: %.99q", len(got), got)
	}
	own := listener("")
	for i := range 1000 {
		own.hear(fmt.Sprintf("1 14[IKE] <net|%d> initiating IKE_SA net[%d] to 198.18.0.9", i, i))
		own.keepOwn([]sa{{id: "5", state: "ESTABLISHED"}})
	}
	if len(own.own) > 70 || !own.isOwn(5) {
		t.Errorf("%d of this node's own are kept", len(own.own))
	}
}

// The sentence about callers changes seldom, unless a more exact cause comes, and ends with the calls.
func TestTheSentenceAboutCallersIsCalm(t *testing.T) {
	w := listener("")
	says := func(after time.Duration, part string) {
		t.Helper()
		if got := w.sentence(atCall(after), false); part == "" && got != "" || !strings.Contains(got, part) {
			t.Errorf("after %v: %q, want %q", after, got, part)
		}
	}
	hearAll(w, callAt(1, "203.0.113.1", noProposal...))
	says(0, "203.0.113.1")
	hearAll(w, callAt(2, "203.0.113.2", noProposal...))
	says(time.Second, "203.0.113.1")
	says(callerHolds, "203.0.113.2")
	hearAll(w, callAt(3, "198.18.0.9", wrongKey...))
	says(callerHolds+time.Second, "wrong pre-shared key")
	// The next call of the same has another cause.
	hearAll(w, callAt(4, "198.18.0.9", noProposal...))
	says(2*callerHolds+2*time.Second, "no proposal chosen")
	says(callerLasts+time.Second, "")
}

func BenchmarkALineAboutACaller(b *testing.B) {
	w := listener("")
	lines := callAt(1, "203.0.113.5", "09[IKE] <%d> IKE_SA_INIT request with message ID 0 processing failed")
	for b.Loop() {
		hearAll(w, lines)
	}
}
