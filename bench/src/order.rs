//! Params and result of the typed message: an order of a shop.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub number: i64,
    pub placed_at: String,
    pub express: bool,
    pub customer: Customer,
    pub lines: Vec<Line>,
    pub payment: Payment,
    pub delivery: Delivery,
    pub coupons: Vec<i64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Customer {
    pub id: i64,
    pub name: String,
    pub email: String,
    pub phone: String,
    pub verified: bool,
    pub address: Address,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Address {
    pub street: String,
    pub city: String,
    pub postcode: String,
    pub country: String,
    pub latitude: f64,
    pub longitude: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    pub sku: String,
    pub title: String,
    pub quantity: i64,
    pub price: f64,
    pub taxed: bool,
    pub tags: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Payment {
    pub method: String,
    pub currency: String,
    pub amount: f64,
    pub captured: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delivery {
    pub carrier: String,
    pub hours: Vec<i64>,
    pub weight: f64,
    pub signature: bool,
    pub remark: String,
}

/// The answer: a small typed value, written without allocating.
#[derive(Clone, Debug, Serialize)]
pub struct Receipt {
    pub number: i64,
    pub units: i64,
    pub total: f64,
}

/// The handler itself, the same for every contestant.
#[must_use]
pub fn place(order: &Order) -> Receipt {
    let lines = order.lines.iter();
    Receipt {
        number: order.number,
        units: lines.clone().map(|line| line.quantity).sum(),
        total: lines.map(|line| line.price * line.quantity as f64).sum(),
    }
}

/// The `index`th order; they differ a little, as real ones do.
#[must_use]
pub fn sample(index: i64) -> Order {
    let line = |sku: &str, title: &str, quantity, price, tags: &[&str]| Line {
        sku: sku.to_owned(),
        title: title.to_owned(),
        quantity,
        price,
        taxed: quantity % 2 == 1,
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    };
    Order {
        number: 4_820_133 + index,
        placed_at: format!("2025-03-{:02}T14:07:31Z", index % 28 + 1),
        express: index % 3 == 0,
        customer: Customer {
            id: 90_417 + 13 * index,
            name: "Margarethe Lindqvist".to_owned(),
            email: format!("margarethe.{index}@example.org"),
            phone: "+46 31 700 10 19".to_owned(),
            verified: true,
            address: Address {
                street: "Östra Hamngatan 17, 3rd floor".to_owned(),
                city: "Göteborg".to_owned(),
                postcode: "411 09".to_owned(),
                country: "Sweden".to_owned(),
                latitude: 57.7065,
                longitude: 11.9689,
            },
        },
        lines: vec![
            line(
                "BK-20417",
                "The Rust Programming Language",
                1,
                39.95,
                &["books", "computing"],
            ),
            line(
                "ST-00318",
                "Squared notebook, 120 pages",
                6,
                4.5,
                &["paper"],
            ),
            line(
                "PN-77120",
                "Fine liner 0.4 mm, black",
                12,
                1.85,
                &["pens", "office"],
            ),
        ],
        payment: Payment {
            method: "invoice".to_owned(),
            currency: "SEK".to_owned(),
            amount: 89.15,
            captured: false,
        },
        delivery: Delivery {
            carrier: "PostNord".to_owned(),
            hours: vec![9, 17],
            weight: 1.36,
            signature: true,
            remark: "Ring twice, please".to_owned(),
        },
        coupons: vec![1007, 22 + index],
    }
}
