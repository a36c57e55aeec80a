package metadata

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"edgespan/config"
)

const (
	copyBlock = "__copy_block__"
	// maxValues and deepest limit an expansion with nested blocks; a copied source counts with its expansion. The seed's
	// own file has about 4000 values at a depth of up to 15.
	maxValues = 200_000
	maxDepth  = 100
)

// Expand replaces each copy-block by a deep copy of its source, which shares equal parts; the other properties of the
// block override complete properties of the source. Sources are paths in the unexpanded document, in any order, and may
// be or contain blocks. A block that copies itself, directly or through others, an unknown source and a source that is
// not an object are faults; Expand reports all of them.
func Expand(doc config.Object) (config.Object, config.Faults) {
	e := expansion{doc: doc, around: map[string]int{}, circles: map[string]bool{}}
	out := make(config.Object, len(doc))
	for _, key := range config.Keys(doc) { // the document itself is not a block
		out[key] = e.value(key, doc[key])
	}
	if len(e.faults) > 0 {
		e.faults.Sort()
		return nil, e.faults
	}
	return out, nil
}

type expansion struct {
	doc     config.Object
	path    []string
	blocks  []block        // enclosing blocks
	around  map[string]int // index in blocks by source
	values  int
	circles map[string]bool // already reported
	faults  config.Faults
}

// block is a copy-block under expansion: its source and its depth.
type block struct {
	source string
	depth  int
}

// value expands the value at a key. Arrays contain no blocks.
func (e *expansion) value(key string, v any) any {
	o, ok := v.(config.Object)
	if !ok || e.values > maxValues { // over the limit there is no result
		return v
	}
	e.path = append(e.path, key)
	defer func() { e.path = e.path[:len(e.path)-1] }()
	external := len(e.blocks)
	defer func() { e.leave(external) }()
	for {
		macro, present := o[copyBlock]
		if !present {
			break
		}
		source, ok := e.source(macro)
		if !ok || e.tooLarge(len(source)+len(o)) {
			return o
		}
		merged := make(config.Object, len(source)+len(o))
		maps.Copy(merged, source) // may include the source's own block
		for k, v := range o {
			if k != copyBlock {
				merged[k] = v
			}
		}
		o = merged
	}
	if e.tooLarge(len(o)) {
		return o
	}
	out := make(config.Object, len(o))
	for _, k := range config.Keys(o) {
		out[k] = e.value(k, o[k])
	}
	return out
}

// tooLarge reports whether an expansion exceeds the limits; the first excess is a fault.
func (e *expansion) tooLarge(more int) bool {
	if len(e.path) >= maxDepth {
		e.fault(fmt.Sprintf("nested deeper than %d", maxDepth), "")
		return true
	}
	before := e.values
	e.values += 1 + more
	if before <= maxValues && e.values > maxValues {
		e.faults.Add(nil, fmt.Sprintf("the copy-blocks expand to more than %d values", maxValues), "")
	}
	return e.values > maxValues
}

// source returns the object that a macro names and pushes the macro on the stack of blocks.
func (e *expansion) source(macro any) (config.Object, bool) {
	name, ok := macro.(string)
	if !ok {
		e.fault(wrongType(macro), "must be the path of an object in this file, its keys joined by '.'")
		return nil, false
	}
	if i, ok := e.around[name]; ok {
		e.reportCycle(e.blocks[i:])
		return nil, false
	}
	e.around[name] = len(e.blocks)
	e.blocks = append(e.blocks, block{name, len(e.path)})
	path, err := config.ParsePath(name)
	if err != nil {
		e.fault(config.InvalidValue(config.Printable(name))+": "+err.Error(), "")
		return nil, false
	}
	v, found := config.Lookup(e.doc, path)
	if !found {
		e.fault(config.InvalidValue(config.Printable(name)),
			"must be the path of an object in this file, as it is written")
		return nil, false
	}
	o, ok := v.(config.Object)
	if !ok {
		e.fault(config.InvalidValue(config.Printable(name))+", of type "+config.KindOf(v),
			"must be the path of an object in this file")
		return nil, false
	}
	return o, true
}

// leave pops the blocks above index external from the stack.
func (e *expansion) leave(external int) {
	for _, b := range e.blocks[external:] {
		delete(e.around, b.source)
	}
	e.blocks = e.blocks[:external]
}

// reportCycle reports a cycle of blocks once, with all of its blocks, at the block that can't be expanded.
func (e *expansion) reportCycle(blocks []block) {
	var names []string
	for _, b := range blocks {
		names = append(names, b.source)
	}
	first := slices.Index(names, slices.Min(names))
	key := fmt.Sprintf("%q", append(slices.Clone(names[first:]), names[:first]...))
	if e.circles[key] {
		return
	}
	e.circles[key] = true
	e.faults.Add(slices.Clone(e.path[:blocks[0].depth]),
		"its "+copyBlock+" goes round in a circle: "+strings.Join(append(names, names[0]), " -> "),
		"must be a source that does not need the block itself")
}

func (e *expansion) fault(problem, expectation string) {
	e.faults.Add(config.Below(e.path, copyBlock), problem, expectation)
}
