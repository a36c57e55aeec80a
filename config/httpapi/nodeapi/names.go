package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/config/httpapi/rest"
)

// Bounds of what an error repeats of names.
const (
	maxNamed   = 80 // bytes of a name
	maxMatches = 10 // UUIDs to choose from
)

// named is what an error calls the kinds that have display names.
var named = map[string][2]string{"ni": {"network instance", "network instances"}, "app": {"app", "apps"}}

// IsUUID says whether a text is spelled as a UUID, and so can be no display name to the API.
func IsUUID(text string) bool {
	_, err := uuid.Parse(text)
	return err == nil && len(text) == len(uuid.UUID{}.String())
}

// DisplayName is the name of a network or an app for people: of its config, or of what is left where it has none.
func (r Resource) DisplayName() string {
	for _, part := range []any{r.Spec, r.Status} {
		name := ""
		switch p := part.(type) {
		case NetworkSpec:
			name = p.DisplayName
		case AppSpec:
			name = p.DisplayName
		case NetworkStatus:
			name = p.DisplayName
		case AppStatus:
			name = p.DisplayName
		case map[string]any: // of a client
			name, _ = p["displayName"].(string)
		}
		if name != "" {
			return name
		}
	}
	return ""
}

// SplitAdapter parts the id of an adapter, APP/INDEX. The name of an app may have slashes, the index is a number.
func SplitAdapter(id string) (app, index string, ok bool) {
	at := strings.LastIndexByte(id, '/')
	if _, err := strconv.ParseUint(id[at+1:], 10, 31); at < 0 || err != nil {
		return id, "", false
	}
	return id[:at], id[at+1:], true
}

// identify gives the id of what a caller names: a network or an app by its UUID or its display name, an adapter by
// those of its app. A text that is spelled as a UUID is one, whatever others are called. A name that nothing has is
// ErrNotFound, one that several have ErrConflict.
func identify(ctx context.Context, b Backend, kind, name string) (string, error) {
	if kind == "adapter" {
		app, index, ok := SplitAdapter(name)
		if !ok || IsUUID(app) {
			return name, nil
		}
		id, err := identify(ctx, b, "app", app)
		return id + "/" + index, err
	}
	if _, has := named[kind]; !has || IsUUID(name) {
		return name, nil
	}
	items, err := b.List(ctx, kind)
	var inc *rest.Incomplete
	if err != nil && !errors.As(err, &inc) {
		return "", err
	}
	id, err := called(items, kind, name)
	if inc != nil && errors.Is(err, rest.ErrNotFound) { // it may be among what did not answer
		return "", fmt.Errorf("%s %s: %w: %w", kind, spelled(name), rest.ErrBusy, inc)
	}
	return id, err
}

// called is the id of the one item that has a display name.
func called(items []Resource, kind, name string) (string, error) {
	var ids []string
	for _, it := range items {
		if it.DisplayName() == name {
			ids = append(ids, it.ID)
		}
	}
	short := spelled(name)
	switch n := len(ids); {
	case n == 0 || name == "":
		return "", fmt.Errorf("%s %s: %w: no %s has this UUID or display name: edgespan get %s lists them", kind, short,
			rest.ErrNotFound, named[kind][0], kind)
	case n > maxMatches:
		return "", ambiguous(kind, short, n, strings.Join(ids[:maxMatches], ", ")+fmt.Sprintf(" and %d more", n-maxMatches))
	case n > 1:
		return "", ambiguous(kind, short, n, strings.Join(ids, ", "))
	}
	return ids[0], nil
}

// spelled is a name as an error has it: cut, and quoted where it would move a terminal's cursor or end the line.
func spelled(name string) string {
	short := config.Cut(name, maxNamed)
	if strings.ContainsFunc(short, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return config.Quote(short)
	}
	return short
}

// ambiguousError is a name that several objects have.
type ambiguousError struct{ text string }

func (e *ambiguousError) Error() string { return e.text }
func (e *ambiguousError) Unwrap() error { return rest.ErrConflict }

func ambiguous(kind, name string, n int, ids string) error {
	return &ambiguousError{fmt.Sprintf("%s %s: matches %d %s: use one of UUIDs %s", kind, name, n, named[kind][1], ids)}
}

// identified is an object as KIND/ID or KIND/NAME. The kind alone, and one without display names, stay as they are.
// app/NAME/INDEX is an adapter where an app has this name.
func identified(ctx context.Context, b Backend, of string) (string, error) {
	kind, name, _ := strings.Cut(of, "/")
	if name == "" {
		return of, nil
	}
	if app, index, ok := SplitAdapter(name); ok && kind == "app" {
		if IsUUID(app) {
			return of, nil
		}
		id, err := identify(ctx, b, kind, app)
		if !errors.Is(err, rest.ErrNotFound) {
			return kind + "/" + id + "/" + index, err
		}
	}
	id, err := identify(ctx, b, kind, name)
	return kind + "/" + id, err
}
