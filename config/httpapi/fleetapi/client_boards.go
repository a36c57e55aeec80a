package fleetapi

import (
	"context"
	"net/http"
	"net/url"

	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
)

// Hardware lists the base configs that nodes proposed for unknown boards, and the accepted ones.
func (c *Client) Hardware(ctx context.Context) ([]Hardware, error) {
	return rest.Get[[]Hardware](ctx, c.Client, route("boards"), nil)
}

// HardwareConfig returns a node's proposal for a board; without a node the only proposal, or the accepted one.
func (c *Client) HardwareConfig(ctx context.Context, board, node string, reveal bool) (ops.DocumentAnswer, error) {
	v := ofNode(node)
	rest.SetFlag(v, "reveal", reveal)
	return c.document(ctx, route("boards", board), v)
}

// AcceptHardware makes the proposal with this digest the base of all nodes of the board.
func (c *Client) AcceptHardware(ctx context.Context, board, node, digest string) error {
	v := ofNode(node)
	rest.SetText(v, "digest", digest)
	return c.command(ctx, http.MethodPost, route("boards", board, "accept"), v)
}

// RejectHardware deletes the proposals for a board, or the one of a node.
func (c *Client) RejectHardware(ctx context.Context, board, node string) error {
	return c.command(ctx, http.MethodPost, route("boards", board, "reject"), ofNode(node))
}

// ForgetHardware deletes the accepted base config of a board.
func (c *Client) ForgetHardware(ctx context.Context, board string) error {
	return c.command(ctx, http.MethodDelete, route("boards", board), nil)
}

func ofNode(node string) url.Values {
	v := url.Values{}
	rest.SetText(v, "node", node)
	return v
}
