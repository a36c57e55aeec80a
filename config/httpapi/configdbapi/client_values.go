package configdbapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// Place is a place of an environment, and one of its resources by name or id. A name of digits is taken as an id.
type Place struct {
	Environment int64
	Levels      []model.LevelValue
	Resource    string
}

// path returns the path of a place, with tail appended.
func (p Place) path(tail ...any) string {
	segments := []any{toEnvironments, p.Environment}
	for _, l := range p.Levels {
		segments = append(segments, l.Level, l.Value)
	}
	return to(append(segments, tail...)...)
}

// half returns the path of a half of a record. Slashes in a name are not escaped: the original's clients send them so,
// and proxies decode escaped ones.
func (p Place) half(k model.Kind, tail ...any) string {
	segments := []any{"resources"}
	for s := range strings.SplitSeq(p.Resource, "/") {
		segments = append(segments, s)
	}
	return p.path(append(append(segments, string(k)), tail...)...)
}

// Read selects what to read of a half.
type Read struct {
	Effective bool
	Lookup    bool // show_lookup
	Deep      bool
	Key       string // dotted; "": the whole half
	Version   uint64 // 0: the newest
	Revision  uint64 // 0: now
	Known     string // an ETag: the answer has no body if it still applies
}

// Content is the answer to a Read. Body is nil if the reader's copy is current.
type Content struct {
	Body     configdb.JSON
	ETag     string
	Version  uint64
	Revision uint64
}

// Read reads a half of a record.
func (c *Client) Read(ctx context.Context, p Place, k model.Kind, r Read) (Content, error) {
	q := url.Values{}
	rest.SetFlag(q, "effective", r.Effective)
	rest.SetFlag(q, "show_lookup", r.Lookup)
	if r.Deep {
		q.Set("merge", "deep")
	}
	rest.SetText(q, "key", r.Key)
	rest.SetCount(q, "version", r.Version)
	rest.SetCount(q, "revision", r.Revision)
	return c.content(ctx, request{Method: http.MethodGet, Path: p.half(k), Query: q}, r.Known)
}

func (c *Client) content(ctx context.Context, r request, known string) (Content, error) {
	if known != "" {
		r.Header = map[string]string{"If-None-Match": known}
	}
	text, resp, err := c.Ask(ctx, r)
	if err != nil {
		return Content{}, err
	}
	out := Content{ETag: resp.Header.Get("ETag"), Version: count(resp.Header, VersionHeader),
		Revision: count(resp.Header, RevisionHeader)}
	if resp.StatusCode != http.StatusNotModified {
		out.Body, err = configdb.Parse(text)
	}
	return out, err
}

// Put replaces a half of a record.
func (c *Client) Put(ctx context.Context, p Place, k model.Kind, value configdb.JSON, o WriteOptions) (Stored, error) {
	return c.write(ctx, http.MethodPut, p.half(k), value, o)
}

// Remove deletes a half of a record.
func (c *Client) Remove(ctx context.Context, p Place, k model.Kind, o WriteOptions) (Stored, error) {
	return c.write(ctx, http.MethodDelete, p.half(k), nil, o)
}

// EditKeys sends a keys operation that sets or deletes.
func (c *Client) EditKeys(ctx context.Context, p Place, k model.Kind, e configdb.KeysEdit, o WriteOptions) (Stored,
	error) {
	return c.write(ctx, http.MethodPatch, p.half(k, "keys", string(e.Op)), list(e.Items), o)
}

// GetKeys returns the values at paths.
func (c *Client) GetKeys(ctx context.Context, p Place, k model.Kind, paths [][]configdb.JSON) (out []configdb.JSON,
	err error) {
	r, err := writeRequest(http.MethodPatch, p.half(k, "keys", "get"), list(paths), WriteOptions{})
	if err != nil {
		return nil, err
	}
	got, err := c.content(ctx, r, "")
	return got.Body.Elements(), err
}

// Versions returns the versions of a half of a record, the newest first.
func (c *Client) Versions(ctx context.Context, p Place, k model.Kind, before uint64, limit int) ([]model.Version,
	error) {
	return rest.Get[[]model.Version](ctx, c.Client, p.half(k, "history"), part(before, limit))
}

// part returns the query for part of a list.
func part(before uint64, limit int) url.Values {
	q := url.Values{}
	rest.SetCount(q, "before", before)
	rest.SetCount(q, "limit", uint64(max(limit, 0)))
	return q
}

// Diff returns the changes between two versions; to 0 is the newest, from 0 an empty one.
func (c *Client) Diff(ctx context.Context, p Place, k model.Kind, from, to uint64) ([]PatchOp, error) {
	q := url.Values{"from": {strconv.FormatUint(from, 10)}}
	rest.SetCount(q, "to", to)
	return rest.Get[[]PatchOp](ctx, c.Client, p.half(k, "diff"), q)
}

// Rollback writes an earlier version, or the content at a revision, as the newest version.
func (c *Client) Rollback(ctx context.Context, p Place, k model.Kind, b RollbackBody, o WriteOptions) (Stored, error) {
	return c.write(ctx, http.MethodPost, p.half(k, "rollback"), b, o)
}

// RollbackPlace restores all resources of a place as of a revision.
func (c *Client) RollbackPlace(ctx context.Context, p Place, revision uint64, o WriteOptions) (Stored, error) {
	return c.write(ctx, http.MethodPost, p.path("rollback"), PlaceRollback{revision}, o)
}

// Bulk writes several resources of a place, all or none.
func (c *Client) Bulk(ctx context.Context, p Place, b BulkBody, o WriteOptions) (Stored, error) {
	return c.write(ctx, http.MethodPost, p.path("bulk"), b, o)
}

// HieraData returns several resources of a place, merged.
func (c *Client) HieraData(ctx context.Context, p Place, resources []string, m configdb.MergeOptions,
	known string) (Content, error) {
	q := url.Values{"resources": {strings.Join(resources, ",")}}
	rest.SetText(q, "merge", string(m.Strategy))
	rest.SetText(q, "knockout_prefix", m.KnockoutPrefix)
	rest.SetFlag(q, "sort_merged_arrays", m.SortMergedArrays)
	rest.SetFlag(q, "merge_hash_arrays", m.MergeHashArrays)
	return c.content(ctx, request{Method: http.MethodGet, Path: p.path("hiera", "data"), Query: q}, known)
}

// HieraLookup returns those of several keys that are found.
func (c *Client) HieraLookup(ctx context.Context, p Place, l LookupBody) (Content, error) {
	l.Keys, l.Resources = list(l.Keys), list(l.Resources)
	r, err := writeRequest(http.MethodPost, p.path("hiera", "lookup"), l, WriteOptions{})
	if err != nil {
		return Content{}, err
	}
	return c.content(ctx, r, "")
}
