package configdb

import (
	"strconv"

	"github.com/goccy/go-yaml/token"

	"edgespan/config"
)

// mapping collects the members of an object.
type mapping struct {
	members []Member
	own     map[string]bool // keys that stand in it themselves, rather than in what << names
}

func (m *mapping) set(key string, v JSON) { m.members = append(m.members, Member{Key: key, Value: v}) }

func (m *mapping) json() JSON { return NewObject(m.members).JSON() }

// entry reads the value of a key that was just read, with its path noted.
func (r *yamlReader) entry(m *mapping, key *token.Token, value func() (JSON, error)) error {
	merge := key.Type == token.MergeKeyType
	name := key.Value
	if !merge {
		var err error
		if name, err = r.keyText(key); err != nil {
			return err
		}
	}
	r.path = append(r.path, name)
	v, err := value()
	if err == nil && merge {
		err = r.mergeInto(m, key, v)
	} else if err == nil {
		err = r.own(m, key, name)
		m.set(name, v)
	}
	r.path = r.path[:len(r.path)-1]
	return err
}

func (r *yamlReader) own(m *mapping, key *token.Token, name string) error {
	if m.own == nil {
		m.own = map[string]bool{}
	}
	if m.own[name] {
		return r.fault(key, "the key is given twice", "each key once is allowed, as a string")
	}
	m.own[name] = true
	return nil
}

// mergeInto puts what << names over the keys before it, of several objects the first over the others.
func (r *yamlReader) mergeInto(m *mapping, key *token.Token, v JSON) error {
	objects := []JSON{v}
	if v[0] == '[' {
		objects = v.Elements()
	}
	for i := len(objects) - 1; i >= 0; i-- {
		o, err := ObjectOf(objects[i])
		if err != nil {
			return r.fault(key, "<< names "+kindOf(objects[i]), "mappings are allowed, and a list of them")
		}
		m.members = append(m.members, o.Members()...)
	}
	return nil
}

// keyText is a key as a string.
func (r *yamlReader) keyText(t *token.Token) (string, error) {
	v, err := r.scalar(t, t.Value, "", t.Type != token.SingleQuoteType && t.Type != token.DoubleQuoteType)
	if err != nil {
		return "", err
	}
	if text, is := v.Text(); is {
		return text, nil
	}
	if v[0] == 'n' {
		return "", r.fault(t, "a key is null", `strings, numbers and booleans are allowed, "" for an empty one`)
	}
	return string(v), nil
}

func (r *yamlReader) blockList(depth int) (JSON, error) {
	var out []JSON
	column := r.peek().Position.Column
	for t := r.peek(); t != nil && t.Type == token.SequenceEntryType && t.Position.Column == column; t = r.peek() {
		r.next()
		v := JSON("null")
		if in := r.peek(); in != nil && in.Position.Column > column {
			var err error
			r.path = append(r.path, strconv.Itoa(len(out)))
			if v, err = r.block(depth+1, false); err != nil {
				return nil, err
			}
			r.path = r.path[:len(r.path)-1]
		}
		out = append(out, v)
	}
	return listOf(out), nil
}

func (r *yamlReader) flow(depth int) (JSON, error) {
	open := r.next()
	if open.Type == token.SequenceStartType {
		return r.flowList(open, depth)
	}
	var m mapping
	for {
		switch done, err := r.flowEnd(open, token.MappingEndType); {
		case err != nil:
			return nil, err
		case done:
			return m.json(), nil
		}
		key := r.next()
		if !isScalar(key) && key.Type != token.MergeKeyType {
			return nil, r.fault(key, "unexpected "+config.Quote(key.Value), "a key is allowed here")
		}
		err := r.entry(&m, key, func() (JSON, error) {
			if t := r.peek(); t == nil || t.Type != token.MappingValueType {
				return JSON("null"), nil
			}
			r.next()
			return r.flowValue(depth)
		})
		if err == nil {
			err = r.flowComma(token.MappingEndType)
		}
		if err != nil {
			return nil, err
		}
	}
}

func (r *yamlReader) flowList(open *token.Token, depth int) (JSON, error) {
	var out []JSON
	for {
		switch done, err := r.flowEnd(open, token.SequenceEndType); {
		case err != nil:
			return nil, err
		case done:
			return listOf(out), nil
		}
		r.path = append(r.path, strconv.Itoa(len(out)))
		v, err := r.flowValue(depth)
		if err == nil {
			r.path = r.path[:len(r.path)-1]
			err = r.flowComma(token.SequenceEndType)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
}

func (r *yamlReader) flowValue(depth int) (JSON, error) {
	if t := r.peek(); t == nil || t.Type == token.CollectEntryType || closes(t) {
		return JSON("null"), nil
	}
	return r.block(depth+1, true)
}

// flowEnd takes the end of a flow collection, if it is ahead.
func (r *yamlReader) flowEnd(open *token.Token, end token.Type) (bool, error) {
	t := r.peek()
	if t == nil {
		return false, r.fault(open, config.Quote(open.Value)+" is not closed", "")
	}
	if t.Type == end {
		r.next()
		return true, nil
	}
	return false, nil
}

// flowComma takes a comma; before the end there may be none.
func (r *yamlReader) flowComma(end token.Type) error {
	switch t := r.peek(); {
	case t != nil && t.Type == token.CollectEntryType:
		r.next()
	case t != nil && t.Type != end:
		return r.fault(t, "unexpected "+config.Quote(t.Value), "',' and the closing bracket are allowed here")
	}
	return nil
}

func closes(t *token.Token) bool {
	return t.Type == token.MappingEndType || t.Type == token.SequenceEndType
}

func isScalar(t *token.Token) bool {
	switch t.Type {
	case token.SingleQuoteType, token.DoubleQuoteType, token.StringType, token.NullType, token.BoolType,
		token.IntegerType, token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType,
		token.FloatType, token.InfinityType, token.NanType, token.ImplicitNullType:
		return true
	}
	return false
}
