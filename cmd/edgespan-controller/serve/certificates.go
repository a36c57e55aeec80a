package serve

import (
	"fmt"
	"time"

	"edgespan/cmd/term"
	"edgespan/platform/pki"
)

// certificates are the settings for the certificates that the controller presents and issues.
type certificates struct {
	APICert, APIKey      text
	APITLS12             boolean
	NodeDays, ServerDays number
}

// monthly are the default lifetimes.
var monthly = certificates{NodeDays: 30, ServerDays: 30}

func (o *Options) certificateSettings() []setting {
	return []setting{
		{"api-cert", &o.APICert,
			"PEM file of an external certificate for the API, served to clients that ask for one of its names; the " +
				"controller's own is served while it is expired or unreadable; reloaded when it changes", serving},
		{"api-key", &o.APIKey, "PEM file of its key", serving},
		{"api-tls12", &o.APITLS12, "accept TLS 1.2 from clients of the API, as the original's use; never from nodes",
			serving},
		{"node-certificate-days", &o.NodeDays,
			"validity of a node's certificate in days: a node that is offline for longer than a third of it has to join again",
			storing},
		{"server-certificate-days", &o.ServerDays,
			"validity of the controller's own certificate in days; it is renewed after two thirds", storing},
	}
}

// longestDays is the maximum lifetime of a certificate: ten years.
const longestDays = 3650

func (o *Options) checkCertificates(no func(error)) {
	if (o.APICert == "") != (o.APIKey == "") {
		no(term.RequiredTogether("--api-cert", "--api-key"))
	}
	for name, days := range map[string]number{"node": o.NodeDays, "server": o.ServerDays} {
		if days < 1 || days > longestDays {
			no(term.Invalid("--"+name+"-certificate-days", int(days), fmt.Sprintf("1 to %d", longestDays)))
		}
	}
}

// pki returns the options for the CA that o names.
func (o *Options) pki(names []string, revoked *pki.Revocations) pki.Options {
	const day = 24 * time.Hour
	return pki.Options{
		Dir: string(o.DataDir), External: pki.ExternalCA{Cert: string(o.CACert), Key: string(o.CAKey)}, Names: names,
		Revoked:  revoked,
		API:      pki.Files{Cert: string(o.APICert), Key: string(o.APIKey)},
		NodeLife: time.Duration(o.NodeDays) * day, ServerLife: time.Duration(o.ServerDays) * day,
	}
}

// warnings returns problems for the operator that don't stop the controller. Anybody may read them.
func (s *service) warnings() (out []string) {
	if s.issuer.authority.APIFault() != nil {
		out = append(out, "--api-cert: certificate expired or unreadable: see the controller's log")
	}
	if s.access.callers.Stale() != nil {
		out = append(out, "--client-crl-file: list expired; newer revocations of its CA are unknown")
	}
	return out
}
