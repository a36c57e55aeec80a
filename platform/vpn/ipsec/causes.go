package ipsec

import (
	"fmt"
	"regexp"
	"time"
)

// cause is what a line of the log means.
type cause struct {
	line  *regexp.Regexp
	rank  int
	child bool
	means func(w *words, found []string) string
}

func says(format string, args ...func(*words) string) func(*words, []string) string {
	return func(w *words, _ []string) string {
		out := make([]any, len(args))
		for i, a := range args {
			out[i] = a(w)
		}
		return fmt.Sprintf(format, out...)
	}
}

func who(w *words) string { return w.name() }

// causes are in the order in which they are looked for.
var causes = []cause{
	{regexp.MustCompile(`received TS_UNACCEPTABLE notify`), 2, true,
		says("the peer %s refuses the traffic selectors: its subnets must match those of the children", who)},
	{regexp.MustCompile(`received NO_PROPOSAL_CHOSEN notify, no CHILD_SA built`), 2, true,
		says("no proposal chosen: the peer %s accepts none of the ESP proposals", who)},
	{regexp.MustCompile(`received NO_PROPOSAL_CHOSEN notify`), 2, false,
		says("no proposal chosen: the peer %s accepts none of the IKE proposals", who)},
	{regexp.MustCompile(`received proposals unacceptable`), 2, false,
		says("no proposal chosen: none of the IKE proposals of the peer %s is accepted here", who)},
	{regexp.MustCompile(`no acceptable proposal found`), 2, true,
		says("no proposal chosen: none of the ESP proposals of the peer %s is accepted here", who)},
	{regexp.MustCompile(`^traffic selectors .* unacceptable`), 2, true,
		says("the traffic selectors of the peer %s are refused here: its subnets must match those of the children", who)},
	{regexp.MustCompile(`received INVALID_KE_PAYLOAD.*(?:don't|not) (?:support|accept)`), 2, false,
		says("no proposal chosen: the peer %s accepts none of the key exchange groups", who)},
	{regexp.MustCompile(`subject certificate invalid \(valid from (.*) to (.*)\)`), 4, false, peerExpired},
	{regexp.MustCompile(`no issuer certificate found for "(.*)"`), 3, false,
		func(w *words, f []string) string {
			return fmt.Sprintf("the certificate of the peer %s is not trusted: no certificate of the CA of %q", w.name(), f[1])
		}},
	{regexp.MustCompile(`issuer is "(.*)"`), 3, false,
		func(w *words, f []string) string {
			return fmt.Sprintf("the certificate of the peer %s is not trusted: no certificate of its CA %q", w.name(), f[1])
		}},
	{regexp.MustCompile(`certificate was revoked`), 5, false, says("the certificate of the peer %s is revoked", who)},
	{regexp.MustCompile(`IDir '(.*)' does not match to '(.*)'`), 4, false, otherIdentity},
	{regexp.MustCompile(`constraint check failed: identity '(.*)' required`), 4, false,
		func(w *words, f []string) string {
			return fmt.Sprintf("identity mismatch: the peer %s does not prove to be %q", w.name(), f[1])
		}},
	{regexp.MustCompile(`no matching peer config found`), 3, false,
		otherCaller},
	{regexp.MustCompile(`no trusted .*public key found for '(.*)'`), 2, false,
		says("the certificate of the peer %s is not trusted", who)},
	{regexp.MustCompile(`tried \d+ shared keys? for .* but MAC mismatched`), 4, false,
		says("wrong pre-shared key: that of the peer %s is another", who)},
	{regexp.MustCompile(`no shared key found`), 3, false, says("there is no pre-shared key for the peer %s", who)},
	{regexp.MustCompile(`no private key found`), 4, false,
		func(*words, []string) string {
			return "the private key of this node does not belong to its certificate or identity"
		}},
	{regexp.MustCompile(`received EAP_FAILURE|EAP_MSCHAPV2 method failed|EAP-MS-CHAPv2 failed`), 3, false,
		says("EAP authentication failed: the peer %s refuses the user name or password", who)},
	{regexp.MustCompile(`received AUTHENTICATION_FAILED notify`), 2, false, authFailed},
	{regexp.MustCompile(`received INTERNAL_ADDRESS_FAILURE`), 3, true,
		says("the peer %s has no virtual IP address to assign", who)},
	{regexp.MustCompile(`received (FAILED_CP_REQUIRED)`), 3, true,
		says("the peer %s requires that this node asks for a virtual IP address", who)},
	{regexp.MustCompile(`unable to bind socket|could not open .*socket`), 5, false,
		func(*words, []string) string { return "the UDP ports of IKE can't be opened on this node" }},
}

func peerExpired(w *words, f []string) string {
	const form = "Jan 02 15:04:05 2006"
	from, errFrom := time.Parse(form, f[1])
	to, errTo := time.Parse(form, f[2])
	switch {
	case errFrom == nil && time.Now().Before(from.Add(-24*time.Hour)):
		return fmt.Sprintf("the certificate of the peer %s is not valid before %s", w.name(), from.Format(time.DateOnly))
	case errTo == nil:
		return fmt.Sprintf("the certificate of the peer %s has expired on %s", w.name(), to.Format(time.DateOnly))
	}
	return fmt.Sprintf("the certificate of the peer %s has expired, or is not valid yet (%s to %s)", w.name(), f[1], f[2])
}

func otherIdentity(w *words, f []string) string {
	return fmt.Sprintf("identity mismatch: the peer %s says that it is %q, not %q", w.name(), f[1], f[2])
}

// otherCaller is that of a caller whose identity is not that of the peer, or who expects another of this node.
func otherCaller(w *words, _ []string) string {
	if w.peer.RemoteID == "" {
		return "identity mismatch: a peer calls that expects another identity of this node" + w.identities()
	}
	return fmt.Sprintf("identity mismatch: a peer calls whose identity is not %s", w.peer.RemoteID)
}

func authFailed(w *words, _ []string) string {
	switch {
	case w.peer.Auth == "psk":
		return fmt.Sprintf("wrong pre-shared key or identity: the peer %s refuses the authentication of this node%s",
			w.name(), w.identities())
	case !w.peer.End.IsZero() && time.Now().After(w.peer.End):
		return fmt.Sprintf("the certificate of this node has expired on %s: the peer %s refuses it",
			w.peer.End.Format(time.DateOnly), w.name())
	case !w.peer.Begin.IsZero() && time.Now().Before(w.peer.Begin):
		return fmt.Sprintf("the certificate of this node is not valid before %s: the peer %s refuses it",
			w.peer.Begin.Format(time.DateOnly), w.name())
	case w.peer.Auth == "pubkey":
		return fmt.Sprintf("the peer %s does not trust the certificate of this node, or expects another identity%s",
			w.name(), w.identities())
	}
	return fmt.Sprintf("the peer %s refuses the identity of this node%s", w.name(), w.identities())
}

// identities are those that this node claims for itself and its peer, in parentheses.
func (w *words) identities() string {
	switch {
	case w.peer.LocalID != "" && w.peer.RemoteID != "":
		return fmt.Sprintf(" (here %q, there %q)", w.peer.LocalID, w.peer.RemoteID)
	case w.peer.LocalID != "":
		return fmt.Sprintf(" (here %q)", w.peer.LocalID)
	case w.peer.RemoteID != "":
		return fmt.Sprintf(" (there %q)", w.peer.RemoteID)
	}
	return ""
}
