package frozen

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// Constants returns all matching texts in the code.
func (s *Source) Constants(pattern *regexp.Regexp) []string {
	all := map[string]bool{}
	for text := range s.strings {
		if pattern.MatchString(text) {
			all[text] = true
		}
	}
	return sorted(all)
}

// Fields returns the values that the code writes into fields of other modules' structs, if
// owner and name match.
func (s *Source) Fields(owner, name *regexp.Regexp) []string {
	var items []item
	for o, flows := range s.assigned {
		if s.foreignField(o) && owner.MatchString(s.owner[o]) && name.MatchString(o.Name()) {
			for _, f := range flows {
				items = append(items, item{f, nil, true})
			}
		}
	}
	return known(s.valuesOf(items))
}

// Keys returns the keys that the code writes into such fields if they are maps, and the keys that it reads
// from them.
func (s *Source) Keys(owner, name *regexp.Regexp) []string {
	is := func(o types.Object, of string) bool {
		return s.foreignField(o) && owner.MatchString(of) && name.MatchString(o.Name())
	}
	var items []item
	for o, flows := range s.assigned {
		if is(o, s.owner[o]) {
			for _, f := range flows {
				if m, ok := under(s.info.TypeOf(f.expr)).(*types.Map); ok && types.Identical(m, under(o.Type())) {
					items = append(items, item{flow{expr: f.expr, keys: true}, nil, true})
				}
			}
		}
	}
	for o, written := range s.keys {
		if is(o, s.owner[o]) {
			for _, k := range written {
				items = append(items, item{flow{expr: k}, nil, true})
			}
		}
	}
	for _, e := range s.indexed {
		switch x := ast.Unparen(e.X).(type) {
		case *ast.SelectorExpr:
			if selection := s.info.Selections[x]; selection != nil && selection.Kind() == types.FieldVal && is(selection.Obj(), ownerOf(selection)) {
				items = append(items, item{flow{expr: e.Index}, nil, true})
			}
		case *ast.CallExpr: // o.GetLabels()[key]
			if f := s.callee(x); f != nil && !s.ours(f) && strings.HasPrefix(f.Name(), "Get") && name.MatchString(strings.TrimPrefix(f.Name(), "Get")) {
				items = append(items, item{flow{expr: e.Index}, nil, true})
			}
		}
	}
	return known(s.valuesOf(items))
}

// Arguments returns the arguments that the code gives to functions whose full name
// matches.
func (s *Source) Arguments(function *regexp.Regexp, index int) []string {
	var items []item
	for _, call := range s.calls {
		for _, f := range s.functions(call.Fun) {
			if f, ok := f.(*types.Func); ok && function.MatchString(f.FullName()) && index < len(call.Args) {
				items = append(items, item{flow{expr: call.Args[index]}, nil, true})
			}
		}
	}
	return known(s.valuesOf(items))
}

// Conversions returns the values that become values of another module's named type: by
// conversion, by assignment, or as an argument of another module's function.
func (s *Source) Conversions(name string) []string {
	is := func(t types.Type) bool {
		n, ok := types.Unalias(t).(*types.Named)
		return ok && !s.ours(n.Obj()) && n.Obj().Name() == name
	}
	var items []item
	for _, call := range s.calls {
		if tv := s.info.Types[call.Fun]; tv.IsType() && is(tv.Type) {
			items = append(items, item{flow{expr: call.Args[0]}, nil, true})
		}
		if f := s.callee(call); f != nil && !s.ours(f) {
			for i, a := range call.Args {
				if n := f.Signature().Params().Len(); i < n && is(f.Signature().Params().At(i).Type()) {
					items = append(items, item{flow{expr: a}, nil, true})
				}
			}
		}
	}
	for o, flows := range s.assigned {
		if is(o.Type()) {
			for _, f := range flows {
				items = append(items, item{f, nil, true})
			}
		}
	}
	return known(s.valuesOf(items))
}

// Objects returns the objects of other modules' types that the code makes, as kind and name.
func (s *Source) Objects() []string {
	all := map[string]bool{}
	for _, l := range s.literals {
		if t := s.info.TypeOf(l); !s.metadata(t) {
			continue
		}
		for _, e := range l.Elts {
			kv, ok := e.(*ast.KeyValueExpr)
			if !ok || kv.Key.(*ast.Ident).Name != "ObjectMeta" {
				continue
			}
			s.search([]item{{flow{expr: kv.Value}, nil, true}}, 0, func(e ast.Expr, in *scope) {
				meta, ok := e.(*ast.CompositeLit)
				if !ok {
					return
				}
				for _, e := range meta.Elts {
					if kv := e.(*ast.KeyValueExpr); kv.Key.(*ast.Ident).Name == "Name" {
						for _, name := range known(s.part(kv.Value, in, 0)) {
							all[typeName(s.info.TypeOf(l))+" "+name] = true
						}
					}
				}
			})
		}
	}
	return sorted(all)
}

// metadata reports whether a type belongs to another module, and has Kubernetes' metadata.
func (s *Source) metadata(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || s.ours(n.Obj()) {
		return false
	}
	st, ok := n.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for f := range st.Fields() {
		if f.Embedded() && f.Name() == "ObjectMeta" {
			return true
		}
	}
	return false
}

func (s *Source) foreignField(o types.Object) bool {
	v, ok := o.(*types.Var)
	return ok && v.IsField() && !s.ours(o)
}

// known returns the values, except for "" and values without a known part.
func known(values []string) []string {
	return slices.DeleteFunc(values, func(v string) bool { return strings.Trim(v, Unknown) == "" })
}
