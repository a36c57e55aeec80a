package fleetapi

import (
	"errors"
	"net/http"
	"strings"
	"unicode"

	"edgespan/config/httpapi/rest"
)

// admit authenticates the caller and checks its role. A route without a role needs no authentication and takes no slot.
func (a *api) admit(c *call) (leave func(), err error) {
	if c.row.Role == "" {
		return func() {}, nil
	}
	caller := Caller{Name: "local", Role: Admin, Via: rest.ViaLoopback}
	if !a.Local {
		if caller, err = a.authenticate(c.Request); err != nil {
			return nil, err
		}
	}
	return a.Begin(c.Call, caller, c.row.Role)
}

// authenticate finds the caller of a token. The error does not say why a token was rejected.
func (a *api) authenticate(r *http.Request) (caller Caller, err error) {
	denied := rest.Refuse(rest.TypeNoToken, "Authorization: required: must be Bearer TOKEN, with the token of an operator")
	word, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(word, "Bearer") || len(r.Header.Values("Authorization")) != 1 || a.hash == nil {
		return Caller{}, denied
	}
	hash, err := a.hash(strings.TrimSpace(token))
	if err != nil {
		return Caller{}, denied
	}
	caller, known := a.backend.Known(hash)
	if !known { // a token known in memory does not wait behind failed attempts from its address
		wait := a.limiter.Check(r.Context(), r.RemoteAddr, rest.TryToken, func() (wrong bool) {
			caller, err = a.backend.Authenticate(r.Context(), hash)
			return errors.Is(err, ErrNoToken)
		})
		if wait > 0 {
			return Caller{}, tooMany(wait)
		}
	}
	if errors.Is(err, ErrNoToken) {
		return Caller{}, denied
	}
	caller.Via = rest.ViaToken
	return caller, err
}

// mayReveal checks reveal, after the query is parsed: only an admin may see secrets.
func (a *api) mayReveal(c *call) error {
	c.Entry.Reveal = c.flags["reveal"] || c.row.Reveals
	if c.flags["reveal"] && !c.Caller.Role.Includes(Admin) {
		return rest.Refuse(rest.TypePermission, "reveal: not permitted to a %s: an admin can", c.Caller.Role)
	}
	return nil
}

// printableMessage reports whether a message fits on one line of a log.
func printableMessage(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

var _ http.Handler = (*api)(nil)
