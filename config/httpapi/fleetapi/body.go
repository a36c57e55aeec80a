package fleetapi

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"edgespan/config"
	"edgespan/config/httpapi/rest"
)

// readBody reads and parses the body of a call. A write must have the content type of a document even without a body: a
// form of a web page can't send it.
func (a *api) readBody(c *call) error {
	if c.row.Effect == rest.Reads {
		return nil
	}
	kind, err := c.mediaType()
	if err != nil {
		return err
	}
	text, err := a.ReadBody(c.Call, MaxBody)
	if err != nil || c.row.Body == nil && len(strings.TrimSpace(string(text))) == 0 {
		return err
	}
	n, err := c.countValues(text, kind)
	if err != nil {
		return err
	}
	if !c.Holds.Reserve(int64(n) * valueCost) { // before its turn: parsing needs the memory
		return rest.Refuse(rest.TypeBusy, "%s", rest.ErrBodyCrowded)
	}
	done, err := rest.AcquireTurn(c.Context())
	if err != nil {
		return rest.Refuse(rest.TypeBusy, "%s", err)
	}
	defer done()
	read := config.ParseObject
	if kind == "application/yaml" {
		read = config.ReadObjectWithLists
	}
	o, faults := read(text)
	if len(faults) > 0 {
		return faultsProblem(rest.TypeMalformed, "the document can't be read", documentErrors(faults))
	}
	if c.row.Body == nil && len(o) > 0 {
		return rest.Refuse(rest.TypeBadRequest, "body: not empty: must be empty")
	}
	if c.row.Body != nil && c.row.Body != anObject {
		if faults := checkSchema(schemaOf(c.row.Body), o, nil); len(faults) > 0 {
			return faultsProblem(rest.TypeRejected, "the document is refused", documentErrors(faults))
		}
	}
	c.body = o
	if o == nil {
		c.body = config.Object{} // a YAML document may be empty
	}
	return nil
}

// Bounds on a body before it is parsed: a parsed value is many times larger than its text. A topology or the files of
// an import may describe a whole fleet, every other body a part.
const (
	maxValues      = config.MaxValues
	maxWholeValues = 500_000
	valueCost      = 256       // bytes of a parsed value, at most: an empty object, its key and its slot
	maxYAML        = 256 << 10 // bytes: the YAML reader needs some 200 for each
)

// countValues refuses a body with more values than one write may have. n is an upper bound, counted in the text.
func (c *call) countValues(text []byte, kind string) (n int, err error) {
	if kind == "application/yaml" && len(text) > maxYAML {
		return 0, rest.Refuse(rest.TypeTooLarge, "body: too large: must be at most %d KiB of YAML, JSON can have more",
			maxYAML>>10)
	}
	limit := maxValues
	if c.row.Whole {
		limit = maxWholeValues
	}
	n = config.CountValues(text)
	if kind == "application/yaml" {
		n += bytes.Count(text, []byte{'\n'})
	}
	if n > limit {
		return n, rest.Refuse(rest.TypeTooLarge, "body: too many values (%d): must be at most %d: write it in parts", n,
			limit)
	}
	return n, nil
}

func (c *call) mediaType() (string, error) {
	const allowed = "must be application/json or application/yaml, in UTF-8, without an encoding"
	given := c.Header.Get("Content-Type")
	if given == "" && c.Method == http.MethodDelete {
		return "application/json", nil // a page of another site can't send a DELETE without permission
	}
	kind, params, err := mime.ParseMediaType(given)
	if charset := params["charset"]; err != nil || kind != "application/json" && kind != "application/yaml" ||
		charset != "" && !strings.EqualFold(charset, "utf-8") {
		return "", rest.Refuse(rest.TypeMediaType, "Content-Type: invalid value %s: %s", config.Quote(given), allowed)
	}
	if e := c.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return "", rest.Refuse(rest.TypeMediaType, "Content-Encoding: invalid value %s: %s", config.Quote(e), allowed)
	}
	return kind, nil
}

// decode decodes the body, which its schema has accepted, into out.
func (c *call) decode(out any) error {
	text, err := encode(c.body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}
