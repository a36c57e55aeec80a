package fleetapi

import (
	"errors"
	"net/http"
	"strings"
	"unicode"

	"edgespan/config/httpapi"
)

// admit finds out who asks, and whether that one may.
func (a *api) admit(c *call) *Problem {
	if c.row.role == "" {
		return nil
	}
	if a.noAuth {
		c.caller = Caller{Name: "local", Role: Admin}
	} else if p := a.authenticate(c); p != nil {
		return p
	}
	if !httpapi.Known(c.Context(), c.caller.Name) {
		return problem(TypeBusy, "too many connections of the same caller are open already")
	}
	if wait := a.callers.Take(c.caller.Name, c.entry.Time); wait > 0 {
		return tooMany(wait)
	}
	if !c.caller.Role.May(c.row.role) {
		return problem(TypePermission, "%s %s: is not allowed to a %s: an %s may", c.Method, c.row.path, c.caller.Role, c.row.role)
	}
	return nil
}

// via is what the caller's name is from.
func (a *api) via(c *call) httpapi.Via {
	switch {
	case c.caller.Name == "":
		return ""
	case a.noAuth:
		return httpapi.ViaLoopback
	}
	return httpapi.ViaToken
}

// authenticate asks whose the token is. It says nothing of why one was not taken.
func (a *api) authenticate(c *call) *Problem {
	wait := a.guesses.Wait(c.RemoteAddr, c.entry.Time)
	denied := problem(TypeNoToken, "Authorization: the token of an operator is needed: Bearer TOKEN is allowed")
	word, token, _ := strings.Cut(c.Header.Get("Authorization"), " ")
	if !strings.EqualFold(word, "Bearer") || len(c.Header.Values("Authorization")) != 1 || a.hash == nil {
		if wait > 0 {
			return tooMany(wait)
		}
		a.guesses.Failed(c.RemoteAddr, c.entry.Time)
		return denied
	}
	hash, err := a.hash(strings.TrimSpace(token))
	if err == nil && wait > 0 { // others at this address may have guessed: who has a token does not wait for them
		if caller, known := a.backend.Known(hash); known {
			c.caller = caller
			return nil
		}
	}
	if wait > 0 {
		return tooMany(wait)
	}
	if err != nil {
		a.guesses.Failed(c.RemoteAddr, c.entry.Time)
		return denied
	}
	caller, err := a.backend.Authenticate(c.Context(), hash)
	switch {
	case errors.Is(err, ErrNoToken):
		a.guesses.Failed(c.RemoteAddr, c.entry.Time)
		return denied
	case err != nil:
		return a.problemOf(c, err)
	}
	c.caller = caller
	return nil
}

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
