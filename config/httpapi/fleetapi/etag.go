package fleetapi

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
	"edgespan/config/layers"
)

// ifMatch returns the revisions that a write requires of the layers that it changes: from If-Match, with ETags, or from
// If-None-Match: *, which requires that they were never written.
func (a *api) ifMatch(c *call) (map[history.Layer]uint64, error) {
	match, none := c.Header.Values("If-Match"), c.Header.Values("If-None-Match")
	if len(match) == 0 && len(none) == 0 {
		return nil, nil
	}
	if c.row.Own == nil {
		return nil, rest.Refuse(rest.TypeBadRequest,
			"If-Match, If-None-Match: no document here that they could be about")
	}
	about, err := a.expand(c.Context(), c.row.Own(c))
	if err != nil {
		return nil, err
	}
	if len(none) > 0 {
		if _, any, _ := rest.Tags(none); !any || len(match) > 0 {
			return nil, rest.Refuse(rest.TypeBadRequest, "If-None-Match: must be * with a write, without If-Match")
		}
		return bind(about, 0), nil
	}
	list, any, ok := rest.Tags(match)
	if !ok {
		return nil, rest.Refuse(rest.TypeBadRequest, `If-Match: must be * or a list of "REVISION"`)
	}
	if seen, only := revisionOf(list); only && len(about) == 1 {
		return bind(about, seen), nil // the backend compares them when it writes
	}
	return a.compare(c, about, list, any)
}

// compare compares the ETags with the current revisions. A write of many layers with the ETag of their collection
// passes if none of them was written since.
func (a *api) compare(c *call, about []history.Layer, list []string, any bool) (map[history.Layer]uint64, error) {
	bound := map[history.Layer]uint64{}
	var conflicts history.Conflicts
	for _, l := range about {
		now, err := a.revision(c.Context(), l)
		if err != nil {
			return nil, err
		}
		switch newest, _ := revisionOf(list); {
		case any && now > 0:
			continue // any revision will do
		case any:
			return nil, rest.Refuse(rest.TypePrecondition, "%s: was never written: If-Match: * wants that it was", l)
		case len(about) == 1 && !any && slices.Contains(list, revisionTag(now)),
			len(about) > 1 && !any && now <= newest:
			bound[l] = now
		default:
			by, err := a.writer(c.Context(), l)
			if err != nil {
				return nil, err
			}
			conflicts = append(conflicts, history.Conflict{Layer: l, Expected: newest, By: by})
		}
	}
	if len(conflicts) > 0 {
		return nil, conflicts
	}
	return bound, nil
}

// revisionOf returns the highest revision in a list, and whether the list has nothing else. Weak tags do not count: a
// write needs the strong comparison.
func revisionOf(list []string) (newest uint64, only bool) {
	for _, t := range list {
		if n, err := strconv.ParseUint(strings.Trim(t, `"`), 10, 64); err == nil && t == revisionTag(n) {
			newest, only = max(newest, n), len(list) == 1
		}
	}
	return newest, only
}

func bind(about []history.Layer, revision uint64) map[history.Layer]uint64 {
	out := map[history.Layer]uint64{}
	for _, l := range about {
		out[l] = revision
	}
	return out
}

// expand replaces the auto layer without a name by the auto layers of all nodes.
func (a *api) expand(ctx context.Context, about []history.Layer) ([]history.Layer, error) {
	if len(about) != 1 || about[0] != (history.Layer{Kind: history.Auto}) {
		return about, nil
	}
	d, err := a.backend.Layer(ctx, ops.LayerQuery{Layer: layers.Auto})
	return layersOf(history.Auto, config.Keys(d.Object)), err
}

// revision returns the revision that wrote a layer last, 0 if none did.
func (a *api) revision(ctx context.Context, l history.Layer) (uint64, error) {
	var d ops.DocumentAnswer
	var err error
	switch l.Kind {
	case history.Network:
		d, err = a.backend.Layer(ctx, ops.LayerQuery{Layer: layers.Network})
	case history.Node:
		d, err = a.backend.Layer(ctx, ops.LayerQuery{Layer: layers.Node, Nodes: []string{l.Name}})
	case history.Auto:
		d, err = a.backend.Layer(ctx, ops.LayerQuery{Layer: layers.Auto, Nodes: []string{l.Name}})
	case history.E2E:
		d, err = a.backend.E2E(ctx, l.Name, false)
	case history.Peer:
		var p PeerDetail
		p, err = a.backend.Peer(ctx, l.Name)
		d.Revision = p.Revision
	case history.Cluster:
		var one ClusterDetail
		one, err = a.backend.Cluster(ctx, l.Name)
		d.Revision = one.Revision
	default: // no route changes metadata
		d, err = a.backend.Topology(ctx)
	}
	if errors.As(err, new(*ops.NotFoundError)) {
		return 0, nil
	}
	return d.Revision, err
}

// writer returns the record of the last write of a layer, a zero one if there is none.
func (a *api) writer(ctx context.Context, l history.Layer) (history.RevisionRecord, error) {
	es, err := a.backend.History(ctx, HistoryQuery{Layer: &l, Limit: 1})
	if err != nil || len(es) == 0 {
		return history.RevisionRecord{}, err
	}
	return history.RevisionRecord{Number: es[0].Number, Author: es[0].Author, Time: es[0].Time, Message: es[0].Message},
		nil
}
