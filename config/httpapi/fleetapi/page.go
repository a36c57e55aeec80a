package fleetapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sort"
	"strings"

	"edgespan/config/httpapi/rest"
)

// maxPage is the default and maximum number of entries in one answer: with some 600 bytes each, a few megabytes.
const maxPage = 10_000

var (
	pLimit = param{Name: "limit",
		Summary: "how many at most, 10000 by default; if there are more, the answer has a Link with rel=next",
		Form:    rest.Number}
	pAfter = param{Name: "after", Summary: "only those whose name comes after this one"}
)

// answerPage answers with the requested part of a list sorted by name. If more follows, the answer has a link to it.
func answerPage[T any](c *call, all []T, name func(T) string, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	from := 0
	if after := c.texts["after"]; after != "" {
		from = sort.Search(len(all), func(i int) bool { return name(all[i]) > after })
	}
	page := all[from:]
	limit := pageLimit(c)
	last := ""
	if len(page) > limit {
		page = page[:limit]
		last = name(page[limit-1])
	}
	r, err := answer(page, nil)
	c.setNextLink(&r, "after", last)
	return r, err
}

// pageLimit returns how many entries the answer may have.
func pageLimit(c *call) int {
	if n := c.nums["limit"]; n > 0 && n < maxPage {
		return int(n)
	}
	return maxPage
}

// setNextLink adds the link to the next page: the same request, with another value of one parameter.
func (c *call) setNextLink(r *reply, name, value string) {
	if value == "" {
		return
	}
	q := c.URL.Query()
	q.Set(name, value)
	r.Add("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, c.URL.EscapedPath(), q.Encode()))
}

// nextOf returns the query of the next page, nil if there is none. A controller of an earlier release sends everything
// at once.
func nextOf(h http.Header) url.Values {
	for _, one := range h.Values("Link") {
		target, rest, found := strings.Cut(strings.TrimPrefix(one, "<"), ">")
		if _, query, has := strings.Cut(target, "?"); found && has && strings.Contains(rest, `rel="next"`) {
			if q, err := url.ParseQuery(query); err == nil {
				return q
			}
		}
	}
	return nil
}

// maxPages bounds the pages of one list that a client reads: a faulty server can't keep it reading forever.
const maxPages = 1000

// pages requests one page after the other, until there is no next one.
func (c *Client) pages(ctx context.Context, path string, q url.Values,
	take func([]byte, http.Header) (enough bool, err error)) error {
	for asked := map[string]bool{}; ; {
		text, resp, err := c.Ask(ctx, request{Method: http.MethodGet, Path: path, Query: q})
		if err != nil {
			return err
		}
		enough, err := take(text, resp.Header)
		if err != nil {
			return fmt.Errorf("read answer of %s: %w", c.Name, err)
		}
		asked[q.Encode()] = true
		if q = nextOf(resp.Header); q == nil || enough {
			return nil
		}
		if asked[q.Encode()] {
			return fmt.Errorf("read answer of %s: its pages go in a circle: %s", c.Name, q.Encode())
		}
		if len(asked) == maxPages {
			return fmt.Errorf("read answer of %s: it has more than %d pages", c.Name, maxPages)
		}
	}
}

// listAll reads all pages of a list; limit is how many entries are enough, 0 for all.
func listAll[T any](ctx context.Context, c *Client, path string, q url.Values, limit int) ([]T, error) {
	var out []T
	err := c.pages(ctx, path, q, func(text []byte, _ http.Header) (bool, error) {
		var page []T
		err := json.Unmarshal(text, &page)
		out = append(out, page...)
		return limit > 0 && len(out) >= limit, err
	})
	return out, err
}
