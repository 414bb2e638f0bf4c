//! The types of interfaces in the exports of a passthrough. A world must `use` them, each under its own name.

use std::collections::HashMap;

use wit_parser::{
    Function, Handle, Resolve, Result_, Span, Tuple, Type, TypeDefKind, TypeId, TypeOwner, WorldId, WorldItem, WorldKey,
};

/// The types of interfaces to which exports refer. A world must `use` them, each under its own name.
#[derive(Default)]
pub(super) struct UsedTypes {
    /// The world's type for each interface type.
    aliases: HashMap<TypeId, TypeId>,
    /// The names, in order.
    names: Vec<(String, TypeId)>,
}

impl UsedTypes {
    /// Makes a function refer to the types of the world.
    pub(super) fn replace_in(&mut self, resolve: &mut Resolve, world: WorldId, function: &mut Function) {
        for param in &mut function.params {
            param.ty = self.replaced(resolve, world, param.ty);
        }
        function.result = function.result.map(|result| self.replaced(resolve, world, result));
    }

    fn replaced(&mut self, resolve: &mut Resolve, world: WorldId, ty: Type) -> Type {
        match ty {
            Type::Id(id) => Type::Id(self.replaced_id(resolve, world, id)),
            other => other,
        }
    }

    fn replaced_id(&mut self, resolve: &mut Resolve, world: WorldId, id: TypeId) -> TypeId {
        if let Some(known) = self.aliases.get(&id) {
            return *known;
        }
        let Some(mut ty) = resolve.types.get(id).cloned() else { return id };
        if ty.name.is_some() {
            let name = format!("t{}", self.names.len());
            ty.kind = TypeDefKind::Type(Type::Id(id));
            (ty.name, ty.owner) = (Some(name.clone()), TypeOwner::World(world));
            let alias = resolve.types.alloc(ty);
            self.names.push((name, alias));
            self.aliases.insert(id, alias);
            return alias;
        }
        let mut of = |ty: Type| self.replaced(resolve, world, ty);
        ty.kind = match ty.kind {
            TypeDefKind::Tuple(tuple) => TypeDefKind::Tuple(Tuple { types: tuple.types.into_iter().map(of).collect() }),
            TypeDefKind::Option(ty) => TypeDefKind::Option(of(ty)),
            TypeDefKind::Result(Result_ { ok, err }) => {
                TypeDefKind::Result(Result_ { ok: ok.map(&mut of), err: err.map(&mut of) })
            }
            TypeDefKind::List(ty) => TypeDefKind::List(of(ty)),
            TypeDefKind::FixedLengthList(ty, len) => TypeDefKind::FixedLengthList(of(ty), len),
            TypeDefKind::Map(key, value) => TypeDefKind::Map(of(key), of(value)),
            TypeDefKind::Type(ty) => TypeDefKind::Type(of(ty)),
            TypeDefKind::Handle(Handle::Own(id)) => {
                TypeDefKind::Handle(Handle::Own(self.replaced_id(resolve, world, id)))
            }
            TypeDefKind::Handle(Handle::Borrow(id)) => {
                TypeDefKind::Handle(Handle::Borrow(self.replaced_id(resolve, world, id)))
            }
            other => other,
        };
        let replaced = resolve.types.alloc(ty);
        self.aliases.insert(id, replaced);
        replaced
    }

    /// The world's imports of these types.
    pub(super) fn items(&self) -> impl Iterator<Item = (WorldKey, WorldItem)> {
        let item = |(name, id): &(String, TypeId)| {
            (WorldKey::Name(name.clone()), WorldItem::Type { id: *id, span: Span::default() })
        };
        self.names.iter().map(item)
    }
}
