package fleetapi

import "reflect"

// hardwareRows are the routes of what nodes tell of boards that are not known.
func hardwareRows() []row {
	node := param{name: "node", summary: "whose proposal, where several nodes made one"}
	return []row{
		{method: "GET", path: "boards", role: Viewer, summary: "what nodes proposed of unknown boards, and what was accepted",
			answer: reflect.TypeFor[[]Hardware](), serve: serveHardware},
		{method: "GET", path: "boards/{board}", role: Viewer, summary: "one proposal, or what is accepted of the board",
			query: []param{node, pReveal}, answer: anObject, serve: serveHardwareConfig},
		{
			method: "POST", path: "boards/{board}/accept", role: Operator,
			summary: "make a proposal the base of all nodes of the board", effect: acts,
			query: []param{node,
				{name: "digest", summary: "of the proposal that was looked at, as the list and Edgespan-Digest have it",
					required: true}}, answer: nothing, serve: acceptHardware,
		},
		{
			method: "POST", path: "boards/{board}/reject", role: Operator, summary: "drop proposals; the nodes are asked again",
			effect: acts,
			query:  []param{node}, answer: nothing, serve: rejectHardware,
		},
		{method: "DELETE", path: "boards/{board}", role: Operator, summary: "take back what was accepted of the board",
			effect: acts, answer: nothing, serve: forgetHardware},
	}
}

func serveHardware(a *api, c *call) (reply, error) {
	return give(a.backend.Hardware(c.Context()))
}

func serveHardwareConfig(a *api, c *call) (reply, error) {
	return giveDocument(a.backend.HardwareConfig(c.Context(), c.values["board"], c.texts["node"], c.flags["reveal"]))
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
