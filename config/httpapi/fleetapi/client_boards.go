package fleetapi

import (
	"context"
	"net/http"
	"net/url"

	"edgespan/config/fleet/ops"
)

// Hardware is what nodes proposed of boards that are not known, and what was accepted.
func (c *Client) Hardware(ctx context.Context) ([]Hardware, error) {
	var out []Hardware
	err := c.get(ctx, route("boards"), nil, &out)
	return out, err
}

// HardwareConfig is what one node proposed of a board; without a node the only proposal, or what
// is accepted.
func (c *Client) HardwareConfig(ctx context.Context, board, node string, reveal bool) (ops.Document, error) {
	v := ofNode(node)
	setFlag(v, "reveal", reveal)
	return c.document(ctx, route("boards", board), v)
}

// AcceptHardware makes the proposal with a digest the base of all nodes of the board.
func (c *Client) AcceptHardware(ctx context.Context, board, node, digest string) error {
	v := ofNode(node)
	setText(v, "digest", digest)
	return c.do(ctx, request{method: http.MethodPost, path: route("boards", board, "accept"), query: v}, &Nothing{})
}

// RejectHardware drops the proposals of a board, or one node's.
func (c *Client) RejectHardware(ctx context.Context, board, node string) error {
	return c.do(ctx, request{method: http.MethodPost, path: route("boards", board, "reject"), query: ofNode(node)},
		&Nothing{})
}

// ForgetHardware takes back what was accepted of a board.
func (c *Client) ForgetHardware(ctx context.Context, board string) error {
	return c.do(ctx, request{method: http.MethodDelete, path: route("boards", board)}, &Nothing{})
}

func ofNode(node string) url.Values {
	v := url.Values{}
	setText(v, "node", node)
	return v
}
