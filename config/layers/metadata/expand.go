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
	// maxValues and deepest end an expansion that blocks within blocks make too large: what
	// is copied counts with what it makes. The seed's own file has about 4000 values, 15 deep.
	maxValues = 200_000
	deepest   = 100
)

// Expand puts the source of each copy-block in its place, as a deep copy that shares what
// is equal; the other properties of the block override whole properties of its source.
// Sources are looked up in the document as it is written, in any order, and may be or have
// blocks themselves. A block that would copy itself, directly or by way of others, an
// unknown source and one that is no object are faults, all of them at once.
func Expand(doc config.Object) (config.Object, config.Faults) {
	e := expansion{doc: doc, around: map[string]int{}, circles: map[string]bool{}}
	out := make(config.Object, len(doc))
	for _, key := range config.Keys(doc) { // the document itself is no block
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
	blocks  []block        // those around this place
	around  map[string]int // where in blocks a source is
	values  int
	circles map[string]bool // those that were told
	faults  config.Faults
}

// block is a copy-block that is being expanded: its source, and how deep it stands.
type block struct {
	source string
	depth  int
}

// value expands what stands at a key. Arrays have no blocks.
func (e *expansion) value(key string, v any) any {
	o, is := v.(config.Object)
	if !is || e.values > maxValues { // then there is no result, and all work is in vain
		return v
	}
	e.path = append(e.path, key)
	defer func() { e.path = e.path[:len(e.path)-1] }()
	external := len(e.blocks)
	defer func() { e.leave(external) }()
	for {
		macro, is := o[copyBlock]
		if !is {
			break
		}
		source, ok := e.source(macro)
		if !ok || e.tooLarge(len(source)+len(o)) {
			return o
		}
		merged := make(config.Object, len(source)+len(o))
		maps.Copy(merged, source) // with the block that the source may be
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

// tooLarge ends an expansion that grows without measure, with one fault.
func (e *expansion) tooLarge(more int) bool {
	if len(e.path) >= deepest {
		e.fault(fmt.Sprintf("nested deeper than %d", deepest), "")
		return true
	}
	before := e.values
	e.values += 1 + more
	if before <= maxValues && e.values > maxValues {
		e.faults.Add(nil, fmt.Sprintf("the copy-blocks expand to more than %d values", maxValues), "")
	}
	return e.values > maxValues
}

// source is the object that a macro names; the macro is then on the stack.
func (e *expansion) source(macro any) (config.Object, bool) {
	name, is := macro.(string)
	if !is {
		e.fault(wrongType(macro), "must be the path of an object in this file, its keys joined by '.'")
		return nil, false
	}
	if i, is := e.around[name]; is {
		e.circle(e.blocks[i:])
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
	o, is := v.(config.Object)
	if !is {
		e.fault(config.InvalidValue(config.Printable(name))+", of type "+config.KindOf(v),
			"must be the path of an object in this file")
		return nil, false
	}
	return o, true
}

// leave takes the blocks from the stack that were not there outside.
func (e *expansion) leave(external int) {
	for _, b := range e.blocks[external:] {
		delete(e.around, b.source)
	}
	e.blocks = e.blocks[:external]
}

// circle tells of blocks that lead back to the first of them: once, with all of them, at
// the block that can't be expanded.
func (e *expansion) circle(blocks []block) {
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
	e.faults.Add(config.Sub(e.path, copyBlock), problem, expectation)
}
