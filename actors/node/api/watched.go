package api

import (
	"strconv"
	"time"

	"github.com/google/uuid"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/watched"
)

// watched calls f with what is known of each adapter, its resource's id and the display name of its app.
func (n *Reader) watched(f func(id, name, network string, w watched.Watched, of watched.Counts)) {
	n.Watched(func(ni uuid.UUID, net *watched.Network) {
		counts := net.Counts()
		for _, w := range net.Watched() {
			app := w.Key.AppUUID.String()
			f(AdapterID(app, w.Key.Index), n.appName(w.Key.AppUUID), ni.String(), w, counts)
		}
	})
}

func (n *Reader) leases() (rs []nodeapi.Resource) {
	now := time.Now()
	n.watched(func(id, name, network string, w watched.Watched, _ watched.Counts) {
		l := w.Lease
		s := nodeapi.LeaseStatus{Name: name, Network: network, State: string(l.Current(now)), Address: l.Address,
			Expected: w.IP, MAC: w.MAC, Server: l.Server, At: l.At, Until: l.Until, Renewals: l.Renewals, Refusals: l.Refusals,
			Recorded: l.Recorded}
		if s.State == "" {
			s.State = nodeapi.NoLease
		}
		rs = append(rs, nodeapi.Resource{ID: id, Kind: "lease", Spec: map[string]any{}, Status: s})
	})
	return rs
}

// classNames are the response codes of a DNSStatus (RFC 6895 §2.3).
var classNames = map[watched.Class]string{watched.NoError: "NOERROR", watched.NXDomain: "NXDOMAIN",
	watched.ServFail: "SERVFAIL", watched.Refused: "REFUSED", watched.OtherError: "OTHER"}

func (n *Reader) dnsAnswers() (rs []nodeapi.Resource) {
	n.watched(func(id, name, network string, w watched.Watched, of watched.Counts) {
		s := nodeapi.DNSStatus{Name: name, Network: network, Queries: w.Queries, Answers: map[string]uint64{},
			Evicted: w.Evicted, Unread: of.UnreadDNS, Recent: []nodeapi.DNSAnswer{}}
		for class, text := range classNames {
			s.Answers[text] = w.Answers[class]
		}
		for _, a := range w.Recent {
			code := strconv.Itoa(a.RCode)
			if class := watched.ClassOf(a.RCode); class != watched.OtherError {
				code = classNames[class]
			}
			s.Recent = append(s.Recent, nodeapi.DNSAnswer{Name: a.Name, Type: a.Type, RCode: code, Addresses: a.Addresses,
				TTLSeconds: int64(a.TTL / time.Second), Server: a.Server, TCP: a.TCP, Truncated: a.Truncated,
				Partial: a.Partial, At: a.At, Count: a.Count})
		}
		rs = append(rs, nodeapi.Resource{ID: id, Kind: "dns", Spec: map[string]any{}, Status: s})
	})
	return rs
}
