package configdb

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"edgespan/config"
)

// Patterns of the plain scalars that are not strings, verified against Ruby's Psych 4.
var (
	isNull     = regexp.MustCompile(`^(?:~|(?i:null))?$`)
	isTrue     = regexp.MustCompile(`^(?i:yes|true|on)$`)
	isFalse    = regexp.MustCompile(`^(?i:no|false|off)$`)
	isInfinite = regexp.MustCompile(`^(?i:[-+]?\.inf|\.nan)$`)
	isJSON     = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$`)
	isDecimal  = regexp.MustCompile(`^[-+]?(?:0|[1-9](?:[0-9]|,[0-9]|_[0-9])*)$`)
	isBased    = regexp.MustCompile(`^[-+]?0(?:b[01_,]*[01][01_,]*|o?[0-7_,]*[0-7][0-7_,]*|` +
		`x[0-9a-fA-F_,]*[0-9a-fA-F][0-9a-fA-F_,]*)$`)
	isSixty     = regexp.MustCompile(`^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9]){1,2}$`)
	isRubyFloat = regexp.MustCompile(`^[-+]?(?:[0-9][0-9_,]*)?\.[0-9]*(?:[eE][-+][0-9]+)?$`)
	isCoreFloat = regexp.MustCompile(`^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+$`)
)

const tagsAllowed = "must be !!str, !!int, !!float, !!bool, !!null, !!binary, !!seq or !!map, each before its kind"

// readScalar converts a scalar to JSON.
func (r *yamlReader) readScalar(n *yaml.Node, tag string) (JSON, error) {
	text := n.Value
	switch tag {
	case "!!str", "!!binary", "!":
		return Quote(text), nil
	case "", "!!int", "!!float", "!!bool", "!!null":
	default:
		return nil, r.newError(n, "the tag "+config.Quote(tag)+" is unknown, or is before a scalar", tagsAllowed)
	}
	if tag == "" && !config.IsPlain(n) {
		return Quote(text), nil
	}
	if isInfinite.MatchString(text) {
		return nil, r.newError(n, "the number "+config.Quote(text)+" is not a JSON number",
			`must be a finite number, or a string in ""`)
	}
	v := plainScalar(text)
	if tag != "" && !tagFits(tag, v) {
		return nil, r.newError(n, config.Quote(text)+" is not "+tag, tagsAllowed)
	}
	return v, nil
}

func tagFits(tag string, v JSON) bool {
	switch tag {
	case "!!int":
		return isNumber(v) && !isFloat(v)
	case "!!float":
		return isNumber(v)
	case "!!bool":
		return v[0] == 't' || v[0] == 'f'
	}
	return v[0] == 'n'
}

// plainScalar converts an unquoted scalar; here .inf and .nan are strings.
func plainScalar(text string) JSON {
	switch {
	case isNull.MatchString(text):
		return JSON("null")
	case isTrue.MatchString(text):
		return JSON("true")
	case isFalse.MatchString(text):
		return JSON("false")
	case isJSON.MatchString(text):
		return JSON(text)
	case isDecimal.MatchString(text):
		return JSON(strings.TrimPrefix(removeSeparators(text), "+"))
	case isBased.MatchString(text):
		if i, ok := new(big.Int).SetString(removeSeparators(text), 0); ok {
			return JSON(i.String())
		}
	case isSixty.MatchString(text):
		return JSON(parseBaseSixty(text))
	case isRubyFloat.MatchString(text), isCoreFloat.MatchString(text):
		if v := plainFloat(removeSeparators(text)); isJSON.MatchString(v) {
			return JSON(v)
		}
	}
	return Quote(text)
}

func removeSeparators(text string) string { return strings.NewReplacer("_", "", ",", "").Replace(text) }

// plainFloat returns a decimal with a digit on both sides of its point and without leading zeros.
func plainFloat(text string) string {
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign = "-"
	}
	text = strings.TrimLeft(text, "+-")
	exponent := ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		text, exponent = text[:i], text[i:]
	}
	whole, fraction, point := strings.Cut(text, ".")
	if whole+fraction == "" {
		return "" // only a point
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if point && fraction == "" {
		fraction = "0"
	}
	if point {
		fraction = "." + fraction
	}
	return sign + whole + fraction + exponent
}

// parseBaseSixty computes a number of YAML 1.1 such as 12:30 as Psych does: of three places the last may be missing,
// and only the first has the sign.
func parseBaseSixty(text string) string {
	sum := new(big.Int)
	weight := int64(3600)
	for part := range strings.SplitSeq(text, ":") {
		n, _ := new(big.Int).SetString(strings.TrimPrefix(removeSeparators(part), "+"), 10)
		sum.Add(sum, n.Mul(n, big.NewInt(weight)))
		weight /= 60
	}
	return sum.String()
}

// isPlainSafe reports whether every YAML reader reads an unquoted string as the same string.
func isPlainSafe(s string) bool {
	if !isPlainWord.MatchString(s) || isInfinite.MatchString(s) || dateLike.MatchString(s) {
		return false
	}
	v := plainScalar(s)
	_, ok := v.Text()
	return ok && !isSingleRune.MatchString(s)
}

var (
	isPlainWord  = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*$`)
	isSingleRune = regexp.MustCompile(`^[yYnN]$`) // booleans in YAML 1.1
	dateLike     = regexp.MustCompile(`^[0-9]`)
)

// isPsychNumber reports whether Psych reads a JSON number as a number.
func isPsychNumber(v JSON) bool {
	s := string(v)
	if !isFloat(v) {
		return true
	}
	if !isRubyFloat.MatchString(s) {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}
