package configdbapi

import (
	"edgespan/config/configdb/model"
)

var historyQuery = []param{{"before", "only older ones", aNumber}, {"limit", "how many; at most 1000", aNumber}}

func placeRows() []row {
	merge := []param{
		{"resources", "from the highest to the lowest, separated by commas", aText},
		{"merge", "first, unique, hash or deep", aText},
		{"knockout_prefix", "with deep: what takes a value away", aText},
		{"sort_merged_arrays", "with deep", aFlag},
		{"merge_hash_arrays", "with deep", aFlag},
	}
	return []row{
		{
			method: "POST", path: toBulk, role: Operator, node: nodeWrites, writes: true,
			summary: "write several resources of one place, all or none, as one revision",
			body:    typeOf[BulkBody](), answer: typeOf[Done](), serve: postBulk,
		},
		{
			method: "POST", path: toRollback, role: Operator, writes: true,
			summary: "bring all resources of one place back to what they were at a revision",
			body:    typeOf[PlaceRollback](), answer: typeOf[Done](), serve: postPlaceRollback,
		},
		{method: "GET", path: toHieraData, role: Viewer, node: nodeReads, summary: "several resources merged into one",
			query: merge, answer: document, serve: getHieraData},
		{
			method: "GET", path: toHieraKey, role: Viewer, node: nodeReads,
			summary: "one key, as Puppet spells it, looked up in several resources; 404 if none has it",
			query:   append([]param{{"raw", "the bare value", aFlag}}, merge...), answer: typeOf[Found](), serve: getHieraKey,
		},
		{
			method: "POST", path: toHieraLookup, role: Viewer, node: nodeReads,
			summary: "several keys at once: those that are found",
			body:    typeOf[LookupBody](), answer: document, serve: postHieraLookup,
		},
	}
}

func historyRows() []row {
	return []row{
		{
			method: "GET", path: toHistory, role: Viewer, summary: "the revisions of the facts, the newest first",
			answer: typeOf[[]model.Record](),
			query:  append([]param{{"environment", "only of one", aNumber}}, historyQuery...), serve: getHistory,
		},
		{method: "GET", path: toRevision, role: Viewer, summary: "one revision", answer: typeOf[model.Record](),
			serve: getRevision},
		{
			method: "GET", path: toWatch, role: Viewer, events: true,
			summary: "each revision from now on, or after one, as server-sent events", answer: typeOf[model.Record](),
			query: []param{
				{"since", "the revision after which to begin; Last-Event-ID goes before it", aNumber},
				{"environment", "only what is of one, or of all", aNumber},
				{"resource", "only what is of one, by id, or by name with environment", aText},
				{"level", "LEVEL=VALUE: without what is at another value of that level", aText},
			}, serve: getWatch,
		},
		{method: "GET", path: toOpenAPI, role: Viewer, summary: "this description", answer: document, serve: getOpenAPI},
	}
}
