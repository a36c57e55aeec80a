package fleetapi

import (
	"errors"
	"net/http"
	"strings"
	"unicode"

	"edgespan/config/httpapi/rest"
)

// admit finds out who asks, and whether that one may. Whether the process lives can always be asked: who has not said
// who it is takes no place.
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
	return a.Enter(c.Call, caller, c.row.Role)
}

// authenticate asks whose the token is. It says nothing of why one was not taken.
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
	if !known { // who is known does not wait for those at its address who guess
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

// mayReveal is after the query is read: secrets are an admin's.
func (a *api) mayReveal(c *call) error {
	c.Entry.Reveal = c.flags["reveal"] || c.row.Reveals
	if c.flags["reveal"] && !c.Caller.Role.May(Admin) {
		return rest.Refuse(rest.TypePermission, "reveal: not permitted to a %s: an admin can", c.Caller.Role)
	}
	return nil
}

// printableMessage says whether a message is fit for one line of a log.
func printableMessage(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

var _ http.Handler = (*api)(nil)
