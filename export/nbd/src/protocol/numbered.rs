//! Enumerations with a number for each variant.

/// Defines an enumeration with the functions `number` and `from_number`.
macro_rules! numbered {
    (
        $(#[$meta:meta])*
        enum $name:ident: $int:ty {
            $($(#[$doc:meta])* $variant:ident = $number:expr,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Returns the number in the protocol.
            pub(crate) const fn number(self) -> $int {
                match self {
                    $(Self::$variant => $number,)*
                }
            }

            /// Returns the variant with this number.
            pub(crate) fn from_number(number: $int) -> Option<Self> {
                [$(Self::$variant),*]
                    .into_iter()
                    .find(|it| it.number() == number)
            }
        }
    };
}

pub(super) use numbered;
