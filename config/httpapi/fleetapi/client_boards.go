package fleetapi

import (
	"context"
	"net/http"
	"net/url"

	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
)

// Hardware is what nodes proposed of boards that are not known, and what was accepted.
func (c *Client) Hardware(ctx context.Context) ([]Hardware, error) {
	return rest.Get[[]Hardware](ctx, c.Client, route("boards"), nil)
}

// HardwareConfig is what one node proposed of a board; without a node the only proposal, or what
// is accepted.
func (c *Client) HardwareConfig(ctx context.Context, board, node string, reveal bool) (ops.Document, error) {
	v := ofNode(node)
	rest.SetFlag(v, "reveal", reveal)
	return c.document(ctx, route("boards", board), v)
}

// AcceptHardware makes the proposal with a digest the base of all nodes of the board.
func (c *Client) AcceptHardware(ctx context.Context, board, node, digest string) error {
	v := ofNode(node)
	rest.SetText(v, "digest", digest)
	return c.command(ctx, http.MethodPost, route("boards", board, "accept"), v)
}

// RejectHardware drops the proposals of a board, or one node's.
func (c *Client) RejectHardware(ctx context.Context, board, node string) error {
	return c.command(ctx, http.MethodPost, route("boards", board, "reject"), ofNode(node))
}

// ForgetHardware takes back what was accepted of a board.
func (c *Client) ForgetHardware(ctx context.Context, board string) error {
	return c.command(ctx, http.MethodDelete, route("boards", board), nil)
}

func ofNode(node string) url.Values {
	v := url.Values{}
	rest.SetText(v, "node", node)
	return v
}
