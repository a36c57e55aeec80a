package fleetapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
)

// Prefix starts the paths of all fleet routes.
const Prefix = "/api/v1/fleet/"

func route(segments ...string) string {
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return Prefix + strings.Join(segments, "/")
}

// Nodes returns all nodes that the controller knows, by name.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	return listAll[Node](ctx, c, route("nodes"), nil, 0)
}

// Node returns one node.
func (c *Client) Node(ctx context.Context, name string) (NodeDetail, error) {
	return rest.Get[NodeDetail](ctx, c.Client, route("nodes", name), nil)
}

// Config returns the effective config of one node, or parts of it.
func (c *Client) Config(ctx context.Context, q ops.ConfigQuery) (ops.DocumentAnswer, error) {
	v := url.Values{}
	setPaths(v, "paths", q.Paths)
	rest.SetText(v, "sw", q.Software)
	rest.SetText(v, "fw", q.Firmware)
	rest.SetText(v, "board", q.Board)
	rest.SetFlag(v, "reveal", q.Reveal)
	return c.document(ctx, route("nodes", q.Node, "config"), v)
}

// Paths returns parts of the effective configs of many nodes, {node: {…}}. If they are too large for one answer they
// are read in pages, and Digest is empty.
func (c *Client) Paths(ctx context.Context, q ops.PathsQuery) (ops.DocumentAnswer, error) {
	v := url.Values{}
	setList(v, "nodes", q.Nodes)
	setPaths(v, "paths", q.Paths)
	rest.SetFlag(v, "reveal", q.Reveal)
	d, err := c.document(ctx, route("config"), v)
	if p := (*Problem)(nil); !errors.As(err, &p) || p.Type != rest.TypeTooLarge {
		return d, err
	}
	v.Set("limit", strconv.Itoa(maxPage))
	d = ops.DocumentAnswer{Object: config.Object{}}
	err = c.pages(ctx, route("config"), v, func(text []byte, h http.Header) (bool, error) {
		one, err := documentOf(text, h)
		maps.Copy(d.Object, one.Object)
		return false, err
	})
	return d, err
}

// Explain says which layers set the values at and below a path of a node's effective config.
func (c *Client) Explain(ctx context.Context, node string, path []string) ([]Explanation, error) {
	v := url.Values{}
	setPaths(v, "path", [][]string{path})
	return rest.Get[[]Explanation](ctx, c.Client, route("nodes", node, "explain"), v)
}

// Layer returns one layer, in the form that ops.LayerQuery describes.
func (c *Client) Layer(ctx context.Context, q ops.LayerQuery) (ops.DocumentAnswer, error) {
	v := url.Values{}
	setList(v, "nodes", q.Nodes)
	setList(v, "versions", q.Versions)
	setList(v, "boards", q.Boards)
	rest.SetFlag(v, "reveal", q.Reveal)
	return c.document(ctx, route("layers", q.Layer.String()), v)
}

// NodeLayer returns the overrides of one node.
func (c *Client) NodeLayer(ctx context.Context, node string, reveal bool) (ops.DocumentAnswer, error) {
	v := url.Values{}
	rest.SetFlag(v, "reveal", reveal)
	return c.document(ctx, route("layers", "node", node), v)
}

// Metadata returns the metadata of "node", "controller" or "aggregator".
func (c *Client) Metadata(ctx context.Context, of string) (ops.DocumentAnswer, error) {
	if of == "node" {
		return c.document(ctx, route("metadata"), nil)
	}
	return c.document(ctx, route("e2e", of, "metadata"), nil)
}

// E2E returns the config of the "controller" or the "aggregator".
func (c *Client) E2E(ctx context.Context, file string, reveal bool) (ops.DocumentAnswer, error) {
	v := url.Values{}
	rest.SetFlag(v, "reveal", reveal)
	return c.document(ctx, route("e2e", file), v)
}

// Topology returns the topology of the network in the form of the seed's file.
func (c *Client) Topology(ctx context.Context) (ops.DocumentAnswer, error) {
	return c.document(ctx, route("topology"), nil)
}

// TopologyObject returns one entry of the topology; kind is "node", "link" or "site".
func (c *Client) TopologyObject(ctx context.Context, kind, name string) (ops.DocumentAnswer, error) {
	return c.document(ctx, route("topology", kind+"s", name), nil)
}

// History returns revisions, the newest first.
func (c *Client) History(ctx context.Context, q HistoryQuery) ([]Edition, error) {
	v := url.Values{}
	if q.Layer != nil {
		v.Set("layer", q.Layer.String())
	}
	if q.Before > 0 {
		v.Set("before", strconv.FormatUint(q.Before, 10))
	}
	if q.Limit == 0 {
		return rest.Get[[]Edition](ctx, c.Client, route("history"), v)
	}
	v.Set("limit", strconv.Itoa(q.Limit))
	out, err := listAll[Edition](ctx, c, route("history"), v, q.Limit)
	return out[:min(len(out), q.Limit)], err
}

// Revision returns one revision and its changes.
func (c *Client) Revision(ctx context.Context, number uint64) (EditionDetail, error) {
	return rest.Get[EditionDetail](ctx, c.Client, route("history", strconv.FormatUint(number, 10)), nil)
}

// Diff returns the changes between two revisions; to 0 is the newest.
func (c *Client) Diff(ctx context.Context, from, to uint64) ([]LayerDiff, error) {
	v := url.Values{"from": {strconv.FormatUint(from, 10)}}
	if to > 0 {
		v.Set("to", strconv.FormatUint(to, 10))
	}
	return rest.Get[[]LayerDiff](ctx, c.Client, route("history", "diff"), v)
}

// Rollouts returns the latest rollouts, the newest first.
func (c *Client) Rollouts(ctx context.Context) ([]Rollout, error) {
	return rest.Get[[]Rollout](ctx, c.Client, route("rollouts"), nil)
}

// Rollout returns the rollout of one revision.
func (c *Client) Rollout(ctx context.Context, revision uint64) (Rollout, error) {
	return rest.Get[Rollout](ctx, c.Client, route("rollouts", strconv.FormatUint(revision, 10)), nil)
}

// ExplainRollout returns the decisions of a staged rollout, with reasons.
func (c *Client) ExplainRollout(ctx context.Context, revision uint64) (RolloutDetail, error) {
	return rest.Get[RolloutDetail](ctx, c.Client, route("rollouts", strconv.FormatUint(revision, 10), "explain"), nil)
}

// CommandRollout pauses, resumes, aborts or reverts a staged rollout.
func (c *Client) CommandRollout(ctx context.Context, revision uint64, what RolloutCommand) error {
	_, _, err := c.Ask(ctx,
		request{Method: http.MethodPost, Path: route("rollouts", strconv.FormatUint(revision, 10), string(what))})
	return err
}

// PreviewResult returns the answers to a preview so far.
func (c *Client) PreviewResult(ctx context.Context, id string) (Preview, error) {
	return rest.Get[Preview](ctx, c.Client, route("actions", id), nil)
}

// Operators lists the operator tokens.
func (c *Client) Operators(ctx context.Context) ([]OperatorToken, error) {
	return rest.Get[[]OperatorToken](ctx, c.Client, route("operators"), nil)
}

// AddOperator makes a token. Its text is in this answer only.
func (c *Client) AddOperator(ctx context.Context, t OperatorToken) (NewOperator, error) {
	body, err := encode(t)
	if err != nil {
		return NewOperator{}, err
	}
	return rest.Ask[NewOperator](ctx, c.Client, request{Method: http.MethodPost, Path: route("operators"), Body: body})
}

// RemoveOperator revokes the token of a name.
func (c *Client) RemoveOperator(ctx context.Context, name string) error {
	return c.command(ctx, http.MethodDelete, route("operators", name), nil)
}

// Export returns the seed's files.
func (c *Client) Export(ctx context.Context, reveal bool) (Exported, error) {
	v := url.Values{}
	rest.SetFlag(v, "reveal", reveal)
	return rest.Get[Exported](ctx, c.Client, route("export"), v)
}

// Backup writes a backup of the store and returns its header. It checks the content while writing: after an error the
// output is not a valid backup.
func (c *Client) Backup(ctx context.Context, w io.Writer) (backup.Header, error) {
	in, tee := io.Pipe()
	type end struct {
		copy *backup.Copy
		err  error
	}
	checked := make(chan end, 1)
	go func() {
		whole, err := backup.Check(in)
		_, _ = io.Copy(io.Discard, in) // drains the pipe, so that the writer does not block; a pipe has no other error
		checked <- end{whole, err}
	}()
	err := c.Copy(ctx, request{Method: http.MethodGet, Path: route("backup")}, io.MultiWriter(w, tee))
	_ = tee.Close() // never fails
	done := <-checked
	switch {
	case err != nil:
		return backup.Header{}, err
	case done.err != nil:
		// not the caller's fault
		return backup.Header{},
			fmt.Errorf("back up %s: the answer is no whole backup: %w", c.Name, errors.New(done.err.Error()))
	}
	return done.copy.Header, nil
}

// Support writes a support archive of a node as it comes. The caller checks it: the node may be hostile.
func (c *Client) Support(ctx context.Context, node string, q nodeproto.SupportRequest, w io.Writer) error {
	v := url.Values{}
	rest.SetFlag(v, "noLogs", q.NoLogs)
	rest.SetFlag(v, "flows", q.Flows)
	if q.Since > 0 {
		v.Set("since", q.Since.String())
	}
	return c.Copy(ctx, request{Method: http.MethodPost, Path: route("nodes", node, "support"), Query: v}, w)
}

// Shell asks a node one command of a debug shell, and writes the frames of the answer as they come, one a line.
func (c *Client) Shell(ctx context.Context, node string, q ShellCommand, w io.Writer) error {
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	return c.Copy(ctx, request{Method: http.MethodPost, Path: route("nodes", node, "shell"), Body: body}, w)
}

// Ready reports whether the controller can serve requests.
func (c *Client) Ready(ctx context.Context) error {
	_, err := rest.Get[Alive](ctx, c.Client, "/readyz", nil)
	return err
}

// command sends a request that has no result.
func (c *Client) command(ctx context.Context, method, path string, q url.Values) error {
	_, err := rest.Ask[Nothing](ctx, c.Client, request{Method: method, Path: path, Query: q})
	return err
}

// Command sends a command for a node.
func (c *Client) Command(ctx context.Context, node string, cmd Command) error {
	verb, mode, _ := strings.Cut(string(cmd), "-")
	v := url.Values{}
	rest.SetText(v, "mode", mode)
	return c.command(ctx, http.MethodPost, route("nodes", node, verb), v)
}

// Invite opens a join token for one name. With life 0 the controller chooses its lifetime; replace revokes the
// certificate of the node that has the name.
func (c *Client) Invite(ctx context.Context, node string, life time.Duration, replace bool) (Invitation, error) {
	v := url.Values{}
	if life > 0 {
		v.Set("life", life.String())
	}
	rest.SetFlag(v, "replace", replace)
	return rest.Ask[Invitation](ctx, c.Client,
		request{Method: http.MethodPost, Path: route("nodes", node, "invite"), Query: v})
}

// setPaths adds a parameter for each path. A key that contains a comma is quoted, because the server splits at commas.
func setPaths(v url.Values, key string, paths [][]string) {
	for _, p := range paths {
		spelled := make([]string, len(p))
		for i, s := range p {
			if spelled[i] = config.FormatPath([]string{s}); strings.Contains(s, ",") && !strings.HasPrefix(spelled[i], `"`) {
				spelled[i] = quoted(s)
			}
		}
		v.Add(key, strings.Join(spelled, "."))
	}
}

// setList adds a parameter for each name. A name that the server would split is spelled as a JSON string.
func setList(v url.Values, key string, names []string) {
	for _, n := range names {
		v.Add(key, spellItem(n))
	}
}
