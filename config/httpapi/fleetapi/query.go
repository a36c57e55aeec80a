package fleetapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"edgespan/config"
	"edgespan/config/httpapi/rest"
)

// Bounds on the items of a list in a query, without duplicates. The size of the header bounds nodes; other items cost
// the work of a whole document each.
const (
	maxListed = 64
	maxUnset  = 1000 // paths of one write
)

// maxMessage is the maximum length of the message of a write, in characters.
const maxMessage = 1000

// readQuery reads the parameters of a route, and reports all faults.
func (c *call) readQuery() error {
	c.texts, c.flags, c.nums = map[string]string{}, map[string]bool{}, map[string]uint64{}
	c.lists, c.paths = map[string][]string{}, map[string][][]string{}
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return rest.Refuse(rest.TypeBadRequest, "the query can't be read: must be name=value, joined by & and escaped")
	}
	var faults []ProblemFault
	wrong := func(name, what, allowed string) {
		faults = append(faults, ProblemFault{Path: name, Detail: what, Allowed: allowed})
	}
	for _, name := range sortedKeys(values) {
		if !slices.ContainsFunc(c.row.Query, func(p param) bool { return p.Name == name }) {
			wrong(config.FormatPath([]string{name}), config.UnknownField, rest.ListParams(c.row.Query))
		}
	}
	for _, p := range c.row.Query {
		got := values[p.Name]
		switch {
		case len(got) == 0 && p.Required:
			wrong(p.Name, config.Required, defaultText(p))
		case len(got) > 1 && p.Form != rest.List && p.Form != rest.PathList:
			wrong(p.Name, "given more than once", "must be one")
		case len(got) > 0:
			if what, allowed := c.readParam(p, got); what != "" {
				wrong(p.Name, what, allowed)
			}
		}
	}
	if len(faults) > 0 {
		return faultsProblem(rest.TypeBadRequest, "the query is refused", faults)
	}
	c.Entry.DryRun, c.Entry.Message = c.flags["dryRun"], c.texts["message"]
	return nil
}

// readParam reads one parameter, and describes its fault.
func (c *call) readParam(p param, got []string) (what, allowed string) {
	for _, g := range got {
		if !utf8.ValidString(g) {
			return "not UTF-8", "must be UTF-8"
		}
	}
	switch invalid := config.Invalid(got[0]); p.Form {
	case rest.Flag:
		if got[0] != "0" && got[0] != "1" && got[0] != "" {
			return invalid, "must be 0 or 1"
		}
		c.flags[p.Name] = got[0] == "1"
	case rest.Number:
		n, err := strconv.ParseUint(got[0], 10, 63)
		if err != nil {
			return invalid, "must be 0 or more"
		}
		c.nums[p.Name] = n
	case rest.Duration:
		d, err := time.ParseDuration(got[0])
		if err != nil || d <= 0 {
			return invalid, "must be a duration such as 90s or 24h"
		}
		c.texts[p.Name] = got[0]
	case rest.Text:
		if len(p.Enum) > 0 && !slices.Contains(p.Enum, got[0]) {
			return invalid, config.OneOf(p.Enum)
		}
		if p.Name == "message" && (utf8.RuneCountInString(got[0]) > maxMessage || !printableMessage(got[0])) {
			return "too long, or not a single line", fmt.Sprintf("must be one line of %d characters", maxMessage)
		}
		c.texts[p.Name] = got[0]
	case rest.List, rest.PathList, rest.OnePath:
		return c.readList(p, got)
	}
	return "", ""
}

func (c *call) readList(p param, got []string) (what, allowed string) {
	items := got
	if p.Form != rest.OnePath {
		items = nil
		for _, g := range got {
			items = append(items, splitList(g)...)
		}
	}
	if p.Form == rest.List {
		for i, item := range items {
			if strings.HasPrefix(item, `"`) && json.Unmarshal([]byte(item), &items[i]) != nil {
				return config.Invalid(item), `must be names, one with a comma or quote as a JSON string`
			}
		}
		items = unique(items)
		c.lists[p.Name] = items
		return c.tooMany(p, items)
	}
	items = unique(items)
	if what, allowed := c.tooMany(p, items); what != "" {
		return what, allowed
	}
	for _, item := range items {
		if item == "" && p.Form == rest.OnePath {
			continue // the whole document
		}
		path, err := config.ParsePath(item)
		if err != nil {
			return config.Invalid(item), `must be keys joined by '.', one with a '.' in it in ""`
		}
		c.paths[p.Name] = append(c.paths[p.Name], path)
	}
	if p.Required && len(c.paths[p.Name]) == 0 {
		return config.Invalid(""), defaultText(p)
	}
	return "", ""
}

// tooMany describes the fault of a list that is too long. Nodes are bounded by the size of the header, and by the
// number that exists.
func (c *call) tooMany(p param, items []string) (what, allowed string) {
	limit := maxListed
	if c.row.Effect == rest.Writes {
		limit = maxUnset
	}
	if p.Name == pNodes.Name || len(items) <= limit {
		return "", ""
	}
	return fmt.Sprintf("too many entries (%d)", len(items)), fmt.Sprintf("must be at most %d", limit)
}

// unique removes duplicates and keeps the order.
func unique(items []string) []string {
	seen := make(map[string]bool, len(items))
	return slices.DeleteFunc(items, func(item string) bool {
		again := seen[item]
		seen[item] = true
		return again
	})
}

// splitList splits at commas outside JSON strings. It keeps empty items, but an empty text is an empty list.
func splitList(s string) []string {
	if s == "" {
		return nil
	}
	var out []string
	quoted, from := false, 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quoted:
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[from:])
}

func defaultText(p param) string {
	if len(p.Enum) > 0 {
		return config.OneOf(p.Enum)
	}
	return p.Summary
}

func sortedKeys(v url.Values) []string {
	var out []string
	for k := range v {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
