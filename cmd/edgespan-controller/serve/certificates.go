package serve

import (
	"time"

	"edgespan/platform/pki"
)

// certificates are the settings of what the controller shows and issues.
type certificates struct {
	APICert, APIKey      text
	APITLS12             boolean
	NodeDays, ServerDays number
}

// monthly are how long certificates hold by themselves.
var monthly = certificates{NodeDays: 30, ServerDays: 30}

func (o *Options) certificateSettings() []setting {
	return []setting{
		{"api-cert", &o.APICert,
			"PEM file of an outside certificate for the API, shown to clients that ask for one of its names, in place of " +
				"which they see the controller's own while it has ended or can't be read; read again when it changes", serving},
		{"api-key", &o.APIKey, "PEM file of its key", serving},
		{"api-tls12", &o.APITLS12, "let clients of the API speak TLS 1.2 too, as the original's do; nodes never do", serving},
		{"node-certificate-days", &o.NodeDays,
			"days that a node's certificate holds: a node that is dark for longer than a third of them has to join anew",
			storing},
		{"server-certificate-days", &o.ServerDays,
			"days that the controller's own certificate holds; it is made anew after two thirds", storing},
	}
}

// longestDays is what a certificate may hold at most: ten years.
const longestDays = 3650

func (o *Options) checkCertificates(no func(format string, args ...any)) {
	if (o.APICert == "") != (o.APIKey == "") {
		no("--api-cert and --api-key: one without the other: both or none are allowed")
	}
	for name, days := range map[string]number{"node": o.NodeDays, "server": o.ServerDays} {
		if days < 1 || days > longestDays {
			no("--%s-certificate-days: is %d: 1 to %d are allowed", name, days, longestDays)
		}
	}
}

// pki are the options of the CA that o names.
func (o *Options) pki(names []string, revoked *pki.Revocations) pki.Options {
	const day = 24 * time.Hour
	return pki.Options{
		Dir: string(o.DataDir), Outside: pki.Outside{Cert: string(o.CACert), Key: string(o.CAKey)}, Names: names,
		Revoked:  revoked,
		API:      pki.Files{Cert: string(o.APICert), Key: string(o.APIKey)},
		NodeLife: time.Duration(o.NodeDays) * day, ServerLife: time.Duration(o.ServerDays) * day,
	}
}

// warnings are what a person should look at though the controller serves. Anybody may read them.
func (s *service) warnings() (out []string) {
	if s.issuer.authority.APIFault() != nil {
		out = append(out, "--api-cert: the certificate has ended or can't be read; the controller's log says why")
	}
	if s.access.callers.Stale() != nil {
		out = append(out, "--client-crl-file: a list has ended; what its CA has revoked since is not known here")
	}
	return out
}
