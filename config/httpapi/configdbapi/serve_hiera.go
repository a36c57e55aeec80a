package configdbapi

import (
	"net/http"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
)

// strategies lists the merge strategies of lookups; "" means first.
var strategies = []configdb.MergeStrategy{configdb.MergeFirst, configdb.MergeUnique, configdb.MergeHash,
	configdb.MergeDeep}

// hieraQuery reads the scope and the options of a lookup.
func (c *call) hieraQuery() (model.HieraQuery, error) {
	text := func(name string) string { s, _ := c.query.get(name); return s }
	q := model.HieraQuery{Environment: c.environment, Levels: c.levels, Reveal: c.reveals()}
	if r := text("resources"); r != "" {
		q.Resources = strings.Split(r, ",")
	}
	q.Merge = configdb.MergeOptions{Strategy: configdb.MergeStrategy(text("merge")),
		KnockoutPrefix: text("knockout_prefix")}
	var err error
	if q.Merge.SortMergedArrays, err = c.flag("sort_merged_arrays"); err != nil {
		return q, err
	}
	if q.Merge.MergeHashArrays, err = c.flag("merge_hash_arrays"); err != nil {
		return q, err
	}
	return q, checkHiera(&q)
}

func checkHiera(q *model.HieraQuery) error {
	if len(q.Resources) == 0 || slices.Contains(q.Resources, "") {
		return refuse(http.StatusBadRequest,
			"resources: required: must be names of resources, from the highest to the lowest")
	}
	if q.Merge.Strategy == "" {
		q.Merge.Strategy = configdb.MergeFirst
	}
	if !slices.Contains(strategies, q.Merge.Strategy) {
		return refuse(http.StatusBadRequest, "merge: invalid value %s: must be first, unique, hash or deep",
			config.Quote(string(q.Merge.Strategy)))
	}
	return nil
}

func getHieraData(a *api, c *call) (reply, error) {
	q, err := c.hieraQuery()
	if err != nil {
		return reply{}, err
	}
	return c.answerQuery(a.backend.Hiera(c.Context(), q, c.known()))
}

func getHieraKey(a *api, c *call) (reply, error) {
	q, err := c.hieraQuery()
	if err != nil {
		return reply{}, err
	}
	raw, err := c.flag("raw")
	if err != nil {
		return reply{}, err
	}
	q.Keys = []string{c.name}
	got, err := a.backend.Hiera(c.Context(), q, c.known())
	r, err := c.answerQuery(got, err)
	if err != nil || got.Body == nil { // the caller's copy is current
		return r, err
	}
	found, err := configdb.ObjectOf(got.Body)
	if err != nil {
		return reply{}, err
	}
	value, ok := found.Get(c.name)
	if !ok {
		return reply{}, refuse(http.StatusNotFound, "key %s: none of %s has it", config.Quote(c.name),
			strings.Join(q.Resources, ", "))
	}
	if r.Kept, r.Body = false, value; !raw {
		r.Body = slices.Concat([]byte(`{"value":`), value, []byte("}"))
	}
	return r, nil
}

// postHieraLookup only reads: the query is too long for a URL.
func postHieraLookup(a *api, c *call) (reply, error) {
	f, err := a.readFields(c)
	if err != nil {
		return reply{}, err
	}
	q := model.HieraQuery{
		Environment: c.environment, Levels: c.levels, Resources: f.texts("resources"), Keys: f.texts("keys"),
		Reveal: c.reveals(),
		Merge: configdb.MergeOptions{
			Strategy: configdb.MergeStrategy(f.textOr("merge", "")), KnockoutPrefix: f.textOr("knockout_prefix", ""),
			SortMergedArrays: f.flag("sort_merged_arrays"), MergeHashArrays: f.flag("merge_hash_arrays"),
		},
	}
	f.only("resources", "keys", "merge", "knockout_prefix", "sort_merged_arrays", "merge_hash_arrays")
	if f.err != nil {
		return reply{}, f.err
	}
	if err := checkHiera(&q); err != nil {
		return reply{}, err
	}
	return c.answerQuery(a.backend.Hiera(c.Context(), q, nil))
}
