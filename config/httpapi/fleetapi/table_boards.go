package fleetapi

import (
	"reflect"

	"edgespan/config/httpapi/rest"
)

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
