package fleetapi

import (
	"reflect"
	"time"

	"edgespan/config"
	"edgespan/config/events"
	"edgespan/config/httpapi/rest"
)

// eventRows is the route for events of nodes.
func eventRows() []row {
	return []row{{Method: "GET", Path: "events", Role: Viewer, Summary: "what happened on nodes, by time",
		Query: []param{
			{Name: "node", Summary: "of which node; none: of all"},
			{Name: "object", Summary: "about which object of it, such as ni/UUID; none: all"},
			{Name: "kind", Summary: "none: all", Enum: events.Kinds()},
			{Name: "since", Summary: "a time of RFC 3339; only what happened later"},
			{Name: "last", Summary: "how many of the newest ones; 100 by default, at most 1000", Form: rest.Number},
			{Name: "why", Summary: "with the events that led to each", Form: rest.Flag},
		}, Answer: reflect.TypeFor[Events](), Serve: serveEvents}}
}

// defaultEvents is how many events an answer has if the query does not say.
const defaultEvents = 100

func serveEvents(a *api, c *call) (reply, error) {
	q := EventQuery{Node: c.texts["node"], Object: c.texts["object"], Kind: c.texts["kind"], Last: defaultEvents,
		Why: c.flags["why"]}
	if text := c.texts["since"]; text != "" {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return reply{}, rest.Refuse(rest.TypeBadRequest, "since: %s: must be a time such as 2026-01-31T10:00:00Z",
				config.Invalid(text))
		}
		q.Since = at
	}
	if n := c.nums["last"]; n > 0 {
		q.Last = int(min(n, MaxEvents))
	}
	return answer(a.backend.Events(c.Context(), q))
}

// hardwareRows are the routes for base configs that nodes propose for unknown boards.
func hardwareRows() []row {
	node := param{Name: "node", Summary: "which node's proposal, if several nodes made one"}
	return []row{
		{Method: "GET", Path: "boards", Role: Viewer, Summary: "proposals for unknown boards, and accepted ones",
			Answer: reflect.TypeFor[[]Hardware](), Serve: serveHardware},
		{Method: "GET", Path: "boards/{board}", Role: Viewer, Summary: "one proposal, or the accepted config of the board",
			Query: []param{node, pReveal}, Answer: anObject, Serve: serveHardwareConfig},
		{
			Method: "POST", Path: "boards/{board}/accept", Role: Operator,
			Summary: "make a proposal the base of all nodes of the board", Effect: rest.Acts,
			Query: []param{node,
				{Name: "digest", Summary: "the digest of the proposal, from the list or Edgespan-Digest",
					Required: true}}, Answer: nothing, Serve: acceptHardware,
		},
		{
			Method: "POST", Path: "boards/{board}/reject", Role: Operator,
			Summary: "drop proposals; the controller asks the nodes again",
			Effect:  rest.Acts,
			Query:   []param{node}, Answer: nothing, Serve: rejectHardware,
		},
		{Method: "DELETE", Path: "boards/{board}", Role: Operator, Summary: "forget the accepted config of the board",
			Effect: rest.Acts, Answer: nothing, Serve: forgetHardware},
	}
}

func serveHardware(a *api, c *call) (reply, error) {
	return answer(a.backend.Hardware(c.Context()))
}

func serveHardwareConfig(a *api, c *call) (reply, error) {
	return answerDocument(a.backend.HardwareConfig(c.Context(), c.values["board"], c.texts["node"], c.flags["reveal"]))
}

func acceptHardware(a *api, c *call) (reply, error) {
	return done(a.backend.AcceptHardware(c.Context(), c.Caller, c.values["board"], c.texts["node"], c.texts["digest"]))
}

func rejectHardware(a *api, c *call) (reply, error) {
	return done(a.backend.RejectHardware(c.Context(), c.Caller, c.values["board"], c.texts["node"]))
}

func forgetHardware(a *api, c *call) (reply, error) {
	return done(a.backend.ForgetHardware(c.Context(), c.Caller, c.values["board"]))
}
