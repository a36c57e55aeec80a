package configdbapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"edgespan/config"
	"edgespan/config/configdb"
	"edgespan/config/httpapi/rest"
)

// maxMessage is the maximum length of the message of a write, in characters.
const maxMessage = 1000

// query is the parameters of a request, in order.
type query []parameter

type parameter struct{ name, value string }

// get returns the first value of a parameter.
func (q query) get(name string) (string, bool) {
	for i := range q {
		if q[i].name == name {
			return q[i].value, true
		}
	}
	return "", false
}

func (q query) has(name string) bool { _, ok := q.get(name); return ok }

// readQuery reads the parameters. Unknown ones are ignored on the seed's routes, whose clients may send some, and
// refused on the others.
func (c *call) readQuery() error {
	left := c.URL.RawQuery
	for left != "" {
		var one string
		one, left, _ = strings.Cut(left, "&")
		if one == "" {
			continue
		}
		name, value, _ := strings.Cut(one, "=")
		var err error
		if strings.ContainsAny(one, "%+") {
			var nameErr, valueErr error
			name, nameErr = url.QueryUnescape(name)
			value, valueErr = url.QueryUnescape(value)
			err = errors.Join(nameErr, valueErr)
		}
		if err != nil || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return refuse(http.StatusBadRequest,
				"the query can't be read: must be name=value in UTF-8, joined by & and escaped")
		}
		c.query = append(c.query, parameter{name, value})
	}
	if !c.row.Lenient {
		for _, p := range c.query {
			if !slices.ContainsFunc(c.row.Query, func(known param) bool { return known.Name == p.name }) {
				return refuse(http.StatusBadRequest, "%s: unknown field: %s", config.FormatPath([]string{p.name}),
					rest.ListParams(c.row.Query))
			}
		}
	}
	return c.readWriteOptions()
}

// readWriteOptions reads the parameters of every write.
func (c *call) readWriteOptions() error {
	if c.row.Effect != rest.Writes {
		return nil
	}
	text, _ := c.query.get("message")
	if utf8.RuneCountInString(text) > maxMessage ||
		strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return refuse(http.StatusBadRequest, "message: too long, or not a single line: must be one line of %d characters",
			maxMessage)
	}
	c.Entry.Message = text
	switch dry, ok := c.query.get("dryRun"); {
	case ok && dry != "0" && dry != "1":
		return refuse(http.StatusBadRequest, "dryRun: invalid value %s: must be 0 or 1", config.Quote(dry))
	default:
		c.Entry.DryRun = dry == "1"
	}
	return nil
}

// count reads a number from the query; 0 if it is missing.
func (c *call) count(name string) (uint64, bool, error) {
	text, ok := c.query.get(name)
	if !ok {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, true, refuse(http.StatusBadRequest, "%s: invalid value %s: must be a number", name, config.Quote(text))
	}
	return n, true, nil
}

// flag reads a parameter that is 0 or 1.
func (c *call) flag(name string) (bool, error) {
	switch text, ok := c.query.get(name); {
	case !ok || text == "0":
		return false, nil
	case text == "1" || text == "":
		return true, nil
	default:
		return false, refuse(http.StatusBadRequest, "%s: invalid value %s: must be 0 or 1", name, config.Quote(text))
	}
}

// readBody reads the body of a call with any content type: the original's clients send several. The parser decides what
// is valid.
func (a *api) readBody(c *call) ([]byte, error) {
	if e := c.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, refuse(http.StatusUnsupportedMediaType,
			"Content-Encoding: invalid value %s: must be JSON without an encoding",
			config.Quote(e))
	}
	c.Turn.End() // releases the turn while a slow body arrives
	defer c.holdTurn()
	limit := int64(rest.MaxAsked)
	if c.row.Effect == rest.Writes {
		limit = MaxBody
	}
	return a.ReadBody(c.Call, limit)
}

// worthATurn is the size in bytes from which a body is parsed within the caller's turn.
const worthATurn = 64 << 10

// parsed parses a body as JSON.
func (c *call) parsed(text []byte) (configdb.JSON, error) {
	if len(text) >= worthATurn {
		done, err := rest.AcquireTurn(c.Context())
		if err != nil {
			return nil, err
		}
		defer done()
	}
	return configdb.ParseBody(text)
}

// readObject reads a body that is an object of at most limit bytes. A larger one is refused before its members are
// read.
func (a *api) readObject(c *call, limit int) (configdb.Object, error) {
	text, err := a.readBody(c)
	if err != nil {
		return configdb.Object{}, err
	}
	v, err := c.parsed(text)
	if err != nil {
		return configdb.Object{}, err
	}
	if len(v) > limit {
		return configdb.Object{},
			refuse(http.StatusRequestEntityTooLarge, "%s: too long (%d bytes): must be at most %d", c.kind, len(v), limit)
	}
	return configdb.ObjectOf(v)
}

// readNothing reads a body that must be empty, or an empty object.
func (a *api) readNothing(c *call) error {
	text, err := a.readBody(c)
	if err != nil || strings.TrimSpace(string(text)) == "" {
		return err
	}
	v, err := c.parsed(text)
	if err != nil {
		return err
	}
	o, err := configdb.ObjectOf(v)
	if err == nil && o.Len() > 0 {
		err = refuse(http.StatusBadRequest, "body: not empty: must be empty")
	}
	return err
}

// ifMatch returns the ETags that a write requires. Weak tags are kept, and match nothing.
func (c *call) ifMatch() ([]string, error) {
	if len(c.Header.Values("If-None-Match")) > 0 {
		return nil, refuse(http.StatusBadRequest, "If-None-Match: is for reads: with a write must be If-Match")
	}
	lines := c.Header.Values("If-Match")
	if len(lines) == 0 {
		return nil, nil
	}
	list, any, ok := rest.Tags(lines)
	if any {
		return []string{"*"}, nil
	}
	if !ok {
		return nil, refuse(http.StatusBadRequest, `If-Match: must be * or a list of "ETAG"`)
	}
	return list, nil
}

// known returns the ETags that the reader has, none for *.
func (c *call) known() []string {
	lines := c.Header["If-None-Match"]
	if len(lines) == 0 {
		return nil
	}
	list, _, ok := rest.Tags(lines)
	if !ok {
		return nil
	}
	for i, t := range list {
		list[i] = strings.TrimPrefix(t, "W/")
	}
	return list
}

// printableMethod spells a method for a message.
func printableMethod(method string) string {
	if strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
		return method
	}
	return fmt.Sprintf("%q", config.Shorten(method))
}
