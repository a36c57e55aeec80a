package configdbapi

import (
	"net/http"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// getDiff compares two versions. Secrets that the caller may not see are masked first, so they never differ.
func getDiff(a *api, c *call) (reply, error) {
	from, given, err := c.count("from")
	if err == nil && !given {
		err = refuse(http.StatusBadRequest, "from: required: must be a version; 0 is nothing")
	}
	if err != nil {
		return reply{}, err
	}
	to, given, err := c.count("to")
	if err == nil && given && to == 0 {
		err = refuse(http.StatusBadRequest, "to: invalid value 0: must be a version from 1")
	}
	if err != nil {
		return reply{}, err
	}
	q := model.Query{Target: c.place(), Kind: c.kind, Version: to, Reveal: c.reveals()}
	after, err := a.backend.Answer(c.Context(), q, nil)
	if err != nil {
		return reply{}, err
	}
	before := model.Answer{Body: []byte("{}")}
	if from > 0 {
		q.Version = from
		if before, err = a.backend.Answer(c.Context(), q, nil); err != nil {
			return reply{}, err
		}
	}
	done, err := rest.AcquireTurn(c.Context())
	if err != nil {
		return reply{}, err
	}
	defer done()
	m := Meter(c.Context())
	changed, err := m.Diff(before.Body, after.Body)
	if err != nil {
		return reply{}, err
	}
	body, err := m.Patch(changed)
	r := reply{Body: body, Secret: after.Secret && c.reveals()}
	return numbered(r, after.Version, after.Revision), err
}
