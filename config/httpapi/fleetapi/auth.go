package fleetapi

import (
	"errors"
	"net/http"
	"strings"
	"unicode"

	"edgespan/config/httpapi/rest"
)

// admit finds out who asks, and whether that one may.
func (a *api) admit(c *call) *Problem {
	if c.row.role == "" {
		return nil
	}
	if a.noAuth {
		c.caller = Caller{Name: "local", Role: Admin, Via: rest.ViaLoopback}
	} else if p := a.authenticate(c); p != nil {
		return p
	}
	if !rest.Known(c.Context(), c.caller.Name, c.caller.Role, c.caller.Via) {
		return problem(TypeBusy, "too many connections of the same caller are open already")
	}
	if wait := a.callers.Take(c.caller.Who(), c.entry.Time); wait > 0 {
		return tooMany(wait)
	}
	if !c.caller.Role.May(c.row.role) {
		return problem(TypePermission, "%s %s: is not allowed to a %s: an %s may", c.Method, c.row.path, c.caller.Role,
			c.row.role)
	}
	return nil
}

// authenticate asks whose the token is. It says nothing of why one was not taken.
func (a *api) authenticate(c *call) *Problem {
	denied := problem(TypeNoToken, "Authorization: the token of an operator is needed: Bearer TOKEN is allowed")
	word, token, _ := strings.Cut(c.Header.Get("Authorization"), " ")
	if !strings.EqualFold(word, "Bearer") || len(c.Header.Values("Authorization")) != 1 || a.hash == nil {
		return denied
	}
	hash, err := a.hash(strings.TrimSpace(token))
	if err != nil {
		return denied
	}
	if caller, known := a.backend.Known(hash); known { // it does not wait for those at its address who guess
		c.token(caller)
		return nil
	}
	var caller Caller
	wait := a.guesses.Look(c.Context(), c.RemoteAddr, rest.TryToken, func() (wrong bool) {
		caller, err = a.backend.Authenticate(c.Context(), hash)
		return errors.Is(err, ErrNoToken)
	})
	switch {
	case wait > 0:
		return tooMany(wait)
	case errors.Is(err, ErrNoToken):
		return denied
	case err != nil:
		return a.problemOf(c, err)
	}
	c.token(caller)
	return nil
}

// token says that a call is of the owner of a token.
func (c *call) token(of Caller) { c.caller, c.caller.Via = of, rest.ViaToken }

// mayReveal is after the query is read: secrets are an admin's.
func (a *api) mayReveal(c *call) *Problem {
	c.entry.Reveal = c.flags["reveal"] || c.row.reveals
	if c.flags["reveal"] && !c.caller.Role.May(Admin) {
		return problem(TypePermission, "reveal: is not allowed to a %s: an admin may", c.caller.Role)
	}
	return nil
}

// printableMessage says whether a message is fit for one line of a log.
func printableMessage(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

var _ http.Handler = (*api)(nil)
