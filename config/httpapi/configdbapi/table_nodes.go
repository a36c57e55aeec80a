package configdbapi

import (
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

var historyQuery = []param{{Name: "before", Summary: "only older ones", Form: rest.Number},
	{Name: "limit", Summary: "how many; at most 1000", Form: rest.Number}}

func placeRows() []row {
	merge := []param{
		{Name: "resources", Summary: "from the highest to the lowest, separated by commas"},
		{Name: "merge", Summary: "first, unique, hash or deep"},
		{Name: "knockout_prefix", Summary: "with deep: the prefix that removes a value"},
		{Name: "sort_merged_arrays", Summary: "with deep", Form: rest.Flag},
		{Name: "merge_hash_arrays", Summary: "with deep", Form: rest.Flag},
	}
	return []row{
		{
			Method: "POST", Path: toBulk, Role: Operator, Own: nodeWrites, Effect: rest.Writes,
			Summary: "write several resources of one place, all or none, as one revision",
			Body:    typeOf[BulkBody](), Answer: typeOf[Done](), Serve: postBulk,
		},
		{
			Method: "POST", Path: toRollback, Role: Operator, Effect: rest.Writes,
			Summary: "restore all resources of one place to a revision",
			Body:    typeOf[PlaceRollback](), Answer: typeOf[Done](), Serve: postPlaceRollback,
		},
		{Method: "GET", Path: toHieraData, Role: Viewer, Own: nodeReads, Summary: "several resources merged into one",
			Query: merge, Answer: document, Serve: getHieraData},
		{
			Method: "GET", Path: toHieraKey, Role: Viewer, Own: nodeReads,
			Summary: "one key, in Puppet's spelling, looked up in several resources; 404 if none has it",
			Query:   append([]param{{Name: "raw", Summary: "the bare value", Form: rest.Flag}}, merge...),
			Answer:  typeOf[Found](), Serve: getHieraKey,
		},
		{
			Method: "POST", Path: toHieraLookup, Role: Viewer, Own: nodeReads,
			Summary: "several keys at once; the answer has those that exist",
			Body:    typeOf[LookupBody](), Answer: document, Serve: postHieraLookup,
		},
	}
}

func historyRows() []row {
	return []row{
		{
			Method: "GET", Path: toHistory, Role: Viewer, Summary: "the revisions of the facts, the newest first",
			Answer: typeOf[[]model.Record](),
			Query:  append([]param{{Name: "environment", Summary: "only of one", Form: rest.Number}}, historyQuery...),
			Serve:  getHistory,
		},
		{Method: "GET", Path: toRevision, Role: Viewer, Summary: "one revision", Answer: typeOf[model.Record](),
			Serve: getRevision},
		{
			Method: "GET", Path: toWatch, Role: Viewer, Events: true,
			Summary: "each revision from now on, or after one, as server-sent events", Answer: typeOf[model.Record](),
			Query: []param{
				{Name: "since", Summary: "the revision after which to start; Last-Event-ID takes precedence", Form: rest.Number},
				{Name: "environment", Summary: "only one, or changes that affect all", Form: rest.Number},
				{Name: "resource", Summary: "only one, by id, or by name with environment"},
				{Name: "level", Summary: "LEVEL=VALUE: leave out what belongs to another value of that level"},
			}, Serve: getWatch,
		},
		{Method: "GET", Path: toOpenAPI, Role: Viewer, Summary: "this description", Answer: document, Serve: getOpenAPI},
	}
}
